"""Does what an app does with the Resend SDK for Python: `use_resend.py <base url> <key> <key that may send once> <webhook as JSON>`."""
import json
import sys

import resend
from resend.exceptions import InvalidApiKeyError, MissingRequiredFieldsError, RateLimitError, ResendError, ValidationError

base, key, once, webhook = sys.argv[1:]
resend.api_url = base
resend.api_key = key
plain = {"from": "hello@sandbox.jetpost.test", "to": "ada@example.com", "subject": "By Python", "text": "Hello"}


def refused(kind, act):
    try:
        act()
    except kind as error:
        return [str(error.code), error.error_type, error.message]


sent = resend.Emails.send({
    **plain,
    "to": ["python@example.com"],
    "html": "<p>Hello</p>",
    "reply_to": "replies@example.com",
    "tags": [{"name": "sdk", "value": "python"}],
    "attachments": [{"filename": "a.bin", "content": list(bytes(300_000))}],
})
options = {"idempotency_key": "by-python"}
same = [resend.Emails.send(plain, options)["id"] for _ in range(2)]
batch = resend.Batch.send([plain, {**plain, "to": "x"}], {"batch_validation": "permissive"})
scheduled = resend.Emails.send({**plain, "scheduled_at": "in 1 hour"})["id"]
resend.Emails.update({"id": scheduled, "scheduled_at": "in 2 hours"})
resend.Emails.cancel(scheduled)
domain = resend.Domains.create({"name": "python.example"})
made = resend.ApiKeys.create({"name": "By Python", "permission": "sending_access"})
hook = resend.Webhooks.create({"endpoint": "https://example.com/hooks", "events": ["email.delivered", "email.sent"]})
given = json.loads(webhook)
headers = {"id": given["Id"], "timestamp": given["Timestamp"], "signature": given["Signature"]}
verified = resend.Webhooks.verify({"payload": given["Payload"], "headers": headers, "webhook_secret": given["Secret"]})
answer = {
    "sent": sent["id"],
    "same": same[0] == same[1],
    "batch": [len(batch["data"]), batch["errors"][0]["index"]],
    "read": resend.Emails.get(scheduled)["last_event"],
    "listed": resend.Emails.list()["data"][0]["id"] == scheduled,
    "domains": [domain["name"], resend.Domains.list()["data"][0]["name"]],
    "hook": hook["signing_secret"][:6],
    "invalid": refused(ValidationError, lambda: resend.Emails.send({**plain, "to": "x"})),
    "missing": refused(MissingRequiredFieldsError, lambda: resend.Emails.send({"from": plain["from"], "to": plain["to"]})),
    "conflict": refused(ResendError, lambda: resend.Emails.send({**plain, "subject": "Other"}, options)),
    "absent": refused(ResendError, lambda: resend.Emails.get("em_none")),
    "verified": verified["type"] == "email.delivered",
}
resend.api_key = made["token"]
answer["restricted"] = refused(ResendError, lambda: resend.Domains.list())
resend.api_key = "re_wrong"
answer["wrong"] = refused(InvalidApiKeyError, lambda: resend.Emails.send(plain))
resend.api_key = once
resend.Emails.send(plain)
# A new minute may begin between the two.
answer["limit"] = next(filter(None, (refused(RateLimitError, lambda: resend.Emails.send(plain)) for _ in range(3))))
print(json.dumps(answer))
