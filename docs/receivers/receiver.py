# Run: JETPOST_WEBHOOK_SECRET=whsec_… PORT=3000 python3 receiver.py, behind a proxy that terminates TLS.
# `seen` stands for a table in your database whose primary key is the event id.
import hashlib
import hmac
import json
import os
import queue
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

secrets = os.environ.get('JETPOST_WEBHOOK_SECRET', '').split(',')
if not all(re.fullmatch(r'whsec_[A-Za-z0-9+/]{16,}=*', secret) for secret in secrets):
    raise SystemExit('JETPOST_WEBHOOK_SECRET must be a secret whsec_…, or two with a comma between them.')
seen = {}
lock = threading.Lock()
work = queue.Queue(10_000)


def is_signed(body, header):
    given = header.encode('latin-1')
    wanted = ['sha256=' + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest() for secret in secrets]
    return any(hmac.compare_digest(given, each.encode()) for each in wanted)


def accept(event):
    with lock:
        if event['id'] in seen:
            return
        seen[event['id']] = True
        if len(seen) > 100_000:
            del seen[next(iter(seen))]
    work.put(event)


def run():
    while True:
        event = work.get()
        print(event['type'], event['id'], event['data']['to'], flush=True)


class Receiver(BaseHTTPRequestHandler):
    timeout = 15

    def do_POST(self):
        size = self.headers.get('Content-Length', '')
        if not size.isdecimal() or int(size) > 10_000_000:
            return self.answer(413)
        raw = self.rfile.read(int(size))
        if not is_signed(raw, self.headers.get('X-Service-Signature', '')):
            return self.answer(401)
        body = json.loads(raw)
        for event in body['events'] if body.get('object') == 'batch' else [body]:
            accept(event)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


threading.Thread(target=run, daemon=True).start()
ThreadingHTTPServer(('127.0.0.1', int(os.environ.get('PORT', '3000'))), Receiver).serve_forever()
