// Does what an app does with the Resend SDK for Go: `use <base url> <key> <key that may send once> <webhook as JSON>`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"

	"github.com/resend/resend-go/v3"
)

type webhook struct {
	Payload, Id, Timestamp, Signature, Secret string
}

func client(base, key string) *resend.Client {
	made := resend.NewClient(key)
	made.BaseURL, _ = url.Parse(base)
	return made
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func textOf[T any](_ T, err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func main() {
	base, key, once := os.Args[1], os.Args[2], os.Args[3]
	background := context.Background()
	own := client(base, key)
	mail := func(to string) *resend.SendEmailRequest {
		return &resend.SendEmailRequest{
			From:        "hello@sandbox.jetpost.test",
			To:          []string{to},
			Subject:     "By Go",
			Html:        "<p>Hello</p>",
			ReplyTo:     "replies@example.com",
			Tags:        []resend.Tag{{Name: "sdk", Value: "go"}},
			Attachments: []*resend.Attachment{{Filename: "a.bin", Content: make([]byte, 300_000)}},
		}
	}
	sent := must(own.Emails.Send(mail("go@example.com")))
	options := &resend.SendEmailOptions{IdempotencyKey: "by-go"}
	first := must(own.Emails.SendWithOptions(background, mail("ada@example.com"), options))
	again := must(own.Emails.SendWithOptions(background, mail("ada@example.com"), options))
	permissive := &resend.BatchSendEmailOptions{BatchValidation: resend.BatchValidationPermissive}
	plain := func(to string) *resend.SendEmailRequest {
		return &resend.SendEmailRequest{From: "hello@sandbox.jetpost.test", To: []string{to}, Subject: "Batch", Text: "Hello"}
	}
	batch := must(own.Batch.SendWithOptions(background, []*resend.SendEmailRequest{plain("ada@example.com"), plain("x")}, permissive))
	later := plain("ada@example.com")
	later.ScheduledAt = "in 1 hour"
	scheduled := must(own.Emails.Send(later))
	must(own.Emails.Update(&resend.UpdateEmailRequest{Id: scheduled.Id, ScheduledAt: "in 2 hours"}))
	must(own.Emails.Cancel(scheduled.Id))
	newest := must(own.Emails.ListWithOptions(background, &resend.ListOptions{})).Data[0]
	domain := must(own.Domains.Create(&resend.CreateDomainRequest{Name: "go.example"}))
	domains := must(own.Domains.List())
	made := must(own.ApiKeys.Create(&resend.CreateApiKeyRequest{Name: "By Go", Permission: "sending_access"}))
	sender := client(base, made.Token)
	hook := must(own.Webhooks.Create(&resend.CreateWebhookRequest{
		Endpoint: "https://example.com/hooks",
		Events:   []string{"email.delivered", "email.sent"},
	}))
	limited := client(base, once)
	must(limited.Emails.Send(plain("ada@example.com")))
	limit := errors.New("not limited")
	for tries := 0; tries < 3 && !errors.Is(limit, resend.ErrRateLimit); tries++ {
		_, limit = limited.Emails.Send(plain("ada@example.com"))
	}
	var details *resend.RateLimitError
	errors.As(limit, &details)
	var given webhook
	json.Unmarshal([]byte(os.Args[4]), &given)
	verified := own.Webhooks.Verify(&resend.VerifyWebhookOptions{
		Payload:       given.Payload,
		Headers:       resend.WebhookHeaders{Id: given.Id, Timestamp: given.Timestamp, Signature: given.Signature},
		WebhookSecret: given.Secret,
	})
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"sent":       sent.Id,
		"same":       first.Id == again.Id,
		"batch":      []int{len(batch.Data), batch.Errors[0].Index},
		"read":       must(own.Emails.Get(scheduled.Id)).LastEvent,
		"listed":     newest.Id == scheduled.Id,
		"domains":    []any{domain.Name, domains.Data[0].Name},
		"hook":       hook.SigningSecret[:6],
		"restricted": textOf(sender.Domains.List()),
		"wrong":      textOf(client(base, "re_wrong").Emails.Send(plain("ada@example.com"))),
		"invalid":    textOf(own.Emails.Send(plain("x"))),
		"absent":     textOf(own.Emails.Get("em_none")),
		"limit":      []any{details.Limit, details.RetryAfter != ""},
		"verified":   verified == nil,
	})
}
