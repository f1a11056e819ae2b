"""Asks the standardwebhooks library about signed requests: for each line {"secret", "body" (base64), "headers"} says whether it takes it, else why not."""
import base64
import json
import sys

from standardwebhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    request = json.loads(line)
    body = base64.b64decode(request['body'])
    try:
        event = Webhook(request['secret']).verify(body, request['headers'])
        print(json.dumps({'event': event}))
    except WebhookVerificationError as error:
        print(json.dumps({'refused': str(error)}))
