import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import Dkim from 'nodemailer/lib/dkim'
import { signMessage, type DkimSigner } from '#src/content/dkim.ts'
import { composeMessage } from '#src/content/mime.ts'
import type { Bench, BenchContext } from './bench.ts'
import { median, ms, print, ratio } from './report.ts'
import type { SizesOf } from './settings.ts'

const BODY_BYTES = 48 * 1024

/** CPU to sign a message of 48 KB with RSA, Ed25519 and both, beside nodemailer's DKIM, in turns of one process. */
export const dkim: Bench<'dkim'> = {
  about: "CPU to sign a message by DKIM, beside nodemailer's",
  rows: () => ['bytes', 'cpuMs.rsa', 'cpuMs.ed25519', 'cpuMs.both', 'cpuMs.nodemailer, rsa'],
  run: compare
}

async function compare ({ sizes, say }: BenchContext<'dkim'>): Promise<Record<string, unknown>> {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const signers: DkimSigner[] = [
    { domain: 'example.com', selector: 'r1', algorithm: 'rsa-sha256', key: rsa },
    {
      domain: 'example.com',
      selector: 'e1',
      algorithm: 'ed25519-sha256',
      key: generateKeyPairSync('ed25519').privateKey
    }
  ]
  const message = bigMessage()
  const theirs = new Dkim({ domainName: 'example.com', keySelector: 'r1', privateKey: rsa })
  const contenders: Record<string, () => unknown> = {
    rsa: () => signMessage(message, signers.slice(0, 1), 1_763_700_000),
    ed25519: () => signMessage(message, signers.slice(1), 1_763_700_000),
    both: () => signMessage(message, signers, 1_763_700_000),
    'nodemailer, rsa': async () => await drained(theirs.sign(message))
  }
  const found = await inTurns(contenders, sizes)
  const base = found['nodemailer, rsa']!
  print(say, `CPU to sign ${message.length} bytes, ms`, [
    ['', 'median', 'of nodemailer'],
    ...Object.entries(found).map(([name, value]) => [name, ms(value), ratio(value / base)])
  ])
  return { bytes: message.length, cpuMs: found }
}

function bigMessage (): Buffer {
  const html = '<p style="margin:0">The quick brown fox — and the lazy dog.</p>\n'
  return composeMessage({
    messageId: '<em_1.0@example.com>',
    date: '2026-11-21T06:20:00.000Z',
    from: { address: 'shop@example.com', name: 'Shop' },
    recipients: [{ address: 'ada@example.net', name: null, kind: 'to' }],
    replyTo: [],
    subject: 'Hello',
    headers: [{ name: 'List-Unsubscribe', value: '<https://example.com/u/1>' }, {
      name: 'List-Unsubscribe-Post',
      value: 'List-Unsubscribe=One-Click'
    }],
    html: html.repeat(BODY_BYTES / html.length),
    text: null,
    attachments: []
  })
}

async function drained (stream: NodeJS.ReadableStream): Promise<void> {
  stream.resume()
  await once(stream, 'end')
}

/** Median CPU of one act, ms: they take turns, so that what the machine does besides hits them alike. */
async function inTurns (
  acts: Record<string, () => unknown>,
  { rounds, warm, messages }: SizesOf<'dkim'>
): Promise<Record<string, number>> {
  const samples: Record<string, number[]> = {}
  for (let round = 0; round <= rounds; round++) {
    for (const [name, act] of Object.entries(acts)) {
      const before = process.cpuUsage()
      const times = round === 0 ? warm : messages
      for (let i = 0; i < times; i++) await act()
      const { user, system } = process.cpuUsage(before)
      if (round > 0) (samples[name] ??= []).push((user + system) / 1000 / times)
    }
  }
  return Object.fromEntries(Object.entries(samples).map(([name, values]) => [name, median(values)]))
}
