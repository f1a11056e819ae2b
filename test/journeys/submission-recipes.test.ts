import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { createAuthority } from '../support/certificates.ts'
import { startSink } from '../support/smtp-sink.ts'

const root = join(import.meta.dirname, '..', '..')
const page = readFileSync(join(root, 'docs', 'smtp.md'), 'utf8')
const pythonMissing = spawnSync('python3', ['--version']).status === 0 ? false : 'python3 is not installed'
const folder = mkdtempSync(join(tmpdir(), 'jetpost-recipes-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const authority = createAuthority()
const { key, cert } = authority.certify('localhost')
const put = (name: string, text: string) => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
const mail = await startSink()
t.teardown(() => mail.stop())
const app = await startTestApp(t, {
  env: {
    SMTP_URL: mail.url,
    JETPOST_DOMAINS: 'shop.example',
    JETPOST_SUBMISSION_PORT: '0',
    JETPOST_TLS_CERT: put('cert.pem', cert),
    JETPOST_TLS_KEY: put('key.pem', key)
  }
})

/** The first code of this language, for this Jetpost. */
function recipe (language: string): string {
  const [, code] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(page)!
  return code!.replaceAll('mail.example.com', 'localhost').replaceAll('2525', String(app.submissionPort))
}

async function run (program: string, args: string[], to: string): Promise<void> {
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    JETPOST_API_KEY: API_KEY,
    NODE_EXTRA_CA_CERTS: put('ca.pem', authority.ca)
  }
  await promisify(execFile)(program, args, { cwd: root, env, timeout: 60_000 })
  const { body: { data } } = await app.request('GET', `/api/emails?to=${to}`)
  const email = await app.settled(data[0].id, 'delivered')
  t.match(email, { from: 'hello@shop.example', to: [to], subject: 'Hello' })
}

t.test('the recipe for Nodemailer sends, and checks the certificate', async t => {
  const code = `import nodemailer from 'nodemailer'
${recipe('js')}
await transport.sendMail({ from: 'hello@shop.example', to: 'node@example.net', subject: 'Hello', text: 'Hello' })`
  await run(process.execPath, ['--input-type=module', '-e', code], 'node@example.net')
  t.ok(true)
})

t.test('the recipe for Python sends', { skip: pythonMissing }, async t => {
  const code = `import os, smtplib
from email.message import EmailMessage
message = EmailMessage()
message['From'] = 'hello@shop.example'
message['To'] = 'python@example.net'
message['Subject'] = 'Hello'
message.set_content('Hello')
${recipe('python')}`
  await run('python3', ['-c', code], 'python@example.net')
  t.ok(true)
})
