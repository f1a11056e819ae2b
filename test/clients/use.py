"""Sends, lists, reads and previews with the client that openapi-python-client has made: `use.py <url> <key>`."""
import importlib
import json
import pkgutil
import sys

import jetpost_client
from jetpost_client import AuthenticatedClient
from jetpost_client.api.emails import get_email_raw, list_emails, send_email
from jetpost_client.api.templates import create_template, preview_template
from jetpost_client.models import CreateTemplateRequest, ListEmailsMetadata, PreviewTemplateRequest, SendEmailRequest

for module in pkgutil.walk_packages(jetpost_client.__path__, "jetpost_client."):
    importlib.import_module(module.name)

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key, timeout=30, raise_on_unexpected_status=True)
mail = SendEmailRequest.from_dict({
    "from": "hello@sandbox.jetpost.test",
    "to": "ada@example.com",
    "subject": "Typed",
    "text": "Hello",
    "metadata": {"order": "7"},
})
sent = send_email.sync(client=client, body=mail)
order = ListEmailsMetadata.from_dict({"metadata[order]": "7"})
page = list_emails.sync(client=client, limit=1, metadata=order)
raw = get_email_raw.sync(client=client, id=sent.id, recipient=0)
template = create_template.sync(client=client, body=CreateTemplateRequest(name="Typed", text="Hello {{name}}"))
filled = PreviewTemplateRequest.from_dict({"variables": {"name": "Ada"}})
preview = preview_template.sync(client=client, id=template.id, body=filled)
empty = preview_template.sync(client=client, id=template.id)
print(json.dumps({
    "sent": sent.id,
    "listed": [email.id for email in page.data],
    "raw": raw.payload.read().decode(),
    "previews": [preview.text, empty.text],
    "version": preview.version,
}))
