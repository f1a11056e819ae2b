"""Verifies every DKIM signature of the mails named, with keys from a file of `name value` lines: one JSON object a mail."""
import json
import sys

import dkim

keys = {}
for line in open(sys.argv[1], encoding='ascii'):
    name, value = line.rstrip('\n').split(' ', 1)
    keys[name.encode() + b'.'] = value.encode()


def look_up(name, timeout=5):
    return keys.get(name if isinstance(name, bytes) else name.encode())


for path in sys.argv[2:]:
    message = open(path, 'rb').read()
    verifier = dkim.DKIM(message)
    count = sum(1 for name, _value in verifier.headers if name.lower() == b'dkim-signature')
    results = []
    for index in range(count):
        one = dkim.DKIM(message)
        passed = one.verify(idx=index, dnsfunc=look_up)
        results.append({'algorithm': one.signature_fields[b'a'].decode(), 'passed': passed})
    print(json.dumps({'path': path, 'signatures': results}))
