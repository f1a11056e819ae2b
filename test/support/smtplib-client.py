"""Sends one mail as a program in Python does, and prints what the server said: one JSON object on each line of input.

Input: {"port", "user", "password", "from", "to": [...], "message", "tls": bool}. Output: {"code", "text"}."""
import json
import smtplib
import sys


def answer(job):
    try:
        with smtplib.SMTP('127.0.0.1', job['port'], timeout=60) as server:
            server.ehlo('client.example')
            if job.get('tls', True):
                server.starttls()
                server.ehlo('client.example')
            server.login(job['user'], job['password'])
            refused = server.sendmail(job['from'], job['to'], job['message'].encode('utf-8'))
            for code, text in refused.values():
                return code, text.decode()
            return 250, 'sent'
    except smtplib.SMTPRecipientsRefused as error:
        return next((code, text.decode()) for code, text in error.recipients.values())
    except smtplib.SMTPSenderRefused as error:
        return error.smtp_code, error.smtp_error.decode()
    except smtplib.SMTPResponseException as error:
        return error.smtp_code, error.smtp_error.decode()
    except smtplib.SMTPException as error:
        return 0, str(error)


for line in sys.stdin:
    code, text = answer(json.loads(line))
    print(json.dumps({'code': code, 'text': text}), flush=True)
