import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { choosePort } from '#src/embedded/ports.ts'
import { atExit } from './at-exit.ts'
import type { Ending } from './servers.ts'

/** A real Postfix on loopback with a configuration, queue and mailboxes of its own. */
export interface Postfix {
  port: number
  /** Messages in a mailbox of peer.test, oldest first, as virtual(8) has filed them. */
  mails(user: string): Buffer[]
  /** Waits until a mailbox holds so many. */
  filed(user: string, count: number, timeoutMs?: number): Promise<Buffer[]>
  log(): string
}

export interface PostfixOptions {
  /** Mail for this domain goes to this port: where bounces come back to. */
  bounces: { domain: string, port: number }
  users: string[]
}

const POSTFIX = '/usr/sbin/postfix'

/** Why there is no Postfix to test with, or false. It needs root, as Postfix does. */
export function postfixMissing (): string | false {
  if (!existsSync(POSTFIX)) return 'Postfix is not installed'
  return process.getuid?.() === 0 ? false : 'Postfix is started by root only'
}

export async function startPostfix (t: Ending, { bounces, users }: PostfixOptions): Promise<Postfix> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-postfix-'))
  chmodSync(folder, 0o755)
  const port = await choosePort(null, null, 'Postfix')
  for (const name of ['etc', 'queue', 'data', 'mail', 'log']) mkdirSync(join(folder, name))
  const [uid, gid] = ['-u', '-g'].map(flag => execFileSync('id', [flag, 'postfix']).toString().trim())
  execFileSync('chown', ['postfix', join(folder, 'data'), join(folder, 'mail')])
  writeFileSync(join(folder, 'etc', 'mailboxes'), users.map(user => `${user}@peer.test ${user}/\n`).join(''))
  writeFileSync(join(folder, 'etc', 'transport'), `${bounces.domain} smtp:[127.0.0.1]:${bounces.port}\n`)
  writeFileSync(join(folder, 'etc', 'main.cf'), mainCf(folder, uid!, gid!))
  writeFileSync(join(folder, 'etc', 'master.cf'), masterCf(port))
  const run = (...args: string[]) =>
    execFileSync(POSTFIX, ['-c', join(folder, 'etc'), ...args], { stdio: 'ignore', timeout: 30_000 })
  atExit(() => run('stop'))
  run('start')
  t.teardown(async () => {
    run('stop')
    rmSync(folder, { recursive: true, force: true })
  })

  function mails (user: string): Buffer[] {
    const box = join(folder, 'mail', user, 'new')
    return existsSync(box) ? readdirSync(box).sort().map(name => readFileSync(join(box, name))) : []
  }

  async function filed (user: string, count: number, timeoutMs = 30_000): Promise<Buffer[]> {
    for (const endMs = Date.now() + timeoutMs;; await sleep(50)) {
      const found = mails(user)
      if (found.length >= count) return found
      if (Date.now() > endMs) throw new Error(`${found.length} of ${count} mails for ${user}:\n${log().slice(-3000)}`)
    }
  }

  const log = () => readFileSync(join(folder, 'log', 'mail.log'), 'utf8')
  return { port, mails, filed, log }
}

function mainCf (folder: string, uid: string, gid: string): string {
  return `compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
maillog_file = ${folder}/log/mail.log
maillog_file_prefixes = ${folder}/log
mail_owner = postfix
myhostname = mx.peer.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_reject_unlisted_recipient = no
smtpd_peername_lookup = no
disable_dns_lookups = yes
smtp_host_lookup = native
virtual_mailbox_domains = peer.test
virtual_mailbox_base = ${folder}/mail
virtual_mailbox_maps = texthash:${folder}/etc/mailboxes
virtual_uid_maps = static:${uid}
virtual_gid_maps = static:${gid}
virtual_minimum_uid = 1
transport_maps = texthash:${folder}/etc/transport
`
}

function masterCf (port: number): string {
  const services = [
    `127.0.0.1:${port} inet n - n - - smtpd`,
    'pickup unix n - n 60 1 pickup',
    'cleanup unix n - n - 0 cleanup',
    'qmgr unix n - n 300 1 qmgr',
    'rewrite unix - - n - - trivial-rewrite',
    'bounce unix - - n - 0 bounce',
    'defer unix - - n - 0 bounce',
    'trace unix - - n - 0 bounce',
    'verify unix - - n - 1 verify',
    'flush unix n - n 1000? 0 flush',
    'proxymap unix - - n - - proxymap',
    'smtp unix - - n - - smtp',
    'relay unix - - n - - smtp',
    'showq unix n - n - - showq',
    'error unix - - n - - error',
    'retry unix - - n - - error',
    'discard unix - - n - - discard',
    'local unix - n n - - local',
    'virtual unix - n n - - virtual',
    'anvil unix - - n - 1 anvil',
    'scache unix - - n - 1 scache',
    'tlsmgr unix - - n 1000? 1 tlsmgr',
    'postlog unix-dgram n - n - 1 postlogd'
  ]
  return `${services.join('\n')}\n`
}
