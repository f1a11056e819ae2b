// Run: JETPOST_WEBHOOK_SECRET=whsec_… PORT=3000 go run receiver.go, behind a proxy that terminates TLS.
// `seen` stands for a table in your database whose primary key is the event id.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		To string `json:"to"`
	} `json:"data"`
}

var (
	secretForm = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{16,}=*$`)
	secrets    = strings.Split(os.Getenv("JETPOST_WEBHOOK_SECRET"), ",")
	work       = make(chan event, 10_000)
	mutex      sync.Mutex
	seen       = map[string]bool{}
	oldest     []string
)

func isSigned(body []byte, header string) bool {
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if hmac.Equal([]byte(header), []byte("sha256="+hex.EncodeToString(mac.Sum(nil)))) {
			return true
		}
	}
	return false
}

func accept(e event) {
	mutex.Lock()
	defer mutex.Unlock()
	if seen[e.ID] {
		return
	}
	seen[e.ID] = true
	oldest = append(oldest, e.ID)
	if len(oldest) > 100_000 {
		delete(seen, oldest[0])
		oldest = oldest[1:]
	}
	work <- e
}

func receive(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > 10_000_000 {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !isSigned(raw, r.Header.Get("X-Service-Signature")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var body struct {
		event
		Object string  `json:"object"`
		Events []event `json:"events"`
	}
	if json.Unmarshal(raw, &body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if body.Object != "batch" {
		body.Events = []event{body.event}
	}
	for _, e := range body.Events {
		accept(e)
	}
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	for _, secret := range secrets {
		if !secretForm.MatchString(secret) {
			log.Fatal("JETPOST_WEBHOOK_SECRET must be a secret whsec_…, or two with a comma between them.")
		}
	}
	go func() {
		for e := range work {
			fmt.Println(e.Type, e.ID, e.Data.To)
		}
	}()
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: http.HandlerFunc(receive), ReadTimeout: 15 * time.Second}
	log.Fatal(server.ListenAndServe())
}
