import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { choosePort } from '#src/embedded/ports.ts'
import { atExit } from './at-exit.ts'
import type { Ending } from './servers.ts'

/** A real Exim on loopback that takes every mail for exim.test and finds out later that there is nobody. */
export interface Exim {
  port: number
  log(): string
}

/** Exim and Postfix are not installed side by side: this one is unpacked somewhere, and the variable says where its
 *  program is. */
const BINARY = process.env.JETPOST_TEST_EXIM ?? '/usr/sbin/exim4'

/** Debian's program wants it, whatever its configuration says. */
const USER = 'Debian-exim'

export function eximMissing (): string | false {
  if (!existsSync(BINARY)) return 'Exim is not there: JETPOST_TEST_EXIM names its program'
  if (spawnSync('id', [USER]).status !== 0) return `there is no user ${USER}`
  return process.getuid?.() === 0 ? false : 'Exim is started by root only'
}

export async function startExim (t: Ending, bounces: { domain: string, port: number }): Promise<Exim> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-exim-'))
  chmodSync(folder, 0o755)
  const port = await choosePort(null, null, 'Exim')
  for (const name of ['spool', 'log']) mkdirSync(join(folder, name))
  execFileSync('chown', ['-R', `${USER}:${USER}`, join(folder, 'spool'), join(folder, 'log')])
  writeFileSync(join(folder, 'exim.conf'), configuration(folder, port, bounces))
  const child = spawn(BINARY, ['-C', join(folder, 'exim.conf'), '-bdf', '-q5s'], { stdio: 'ignore' })
  atExit(() => child.kill('SIGTERM'))
  t.teardown(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  })
  await untilListening(port)
  return {
    port,
    log: () => (existsSync(join(folder, 'log', 'mainlog')) ? readFileSync(join(folder, 'log', 'mainlog'), 'utf8') : '')
  }
}

async function untilListening (port: number): Promise<void> {
  for (const endMs = Date.now() + 15_000;; await sleep(50)) {
    const socket = connect(port, '127.0.0.1')
    const open = await once(socket, 'connect').then(() => true, () => false)
    socket.destroy()
    if (open) return
    if (Date.now() > endMs) throw new Error('Exim does not listen')
  }
}

function configuration (folder: string, port: number, bounces: { domain: string, port: number }): string {
  return `primary_hostname = mx.exim.test
exim_path = ${BINARY}
exim_user = ${USER}
exim_group = ${USER}
spool_directory = ${folder}/spool
log_file_path = ${folder}/log/%slog
pid_file_path = ${folder}/exim.pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
host_lookup =
rfc1413_query_timeout = 0s
tls_advertise_hosts =
acl_smtp_rcpt = take
begin acl
take:
  accept
begin routers
back:
  driver = manualroute
  domains = ${bounces.domain}
  transport = back
  route_list = * 127.0.0.1
  self = send
nobody:
  driver = redirect
  domains = exim.test
  allow_fail
  data = :fail: no such person at this address
begin transports
back:
  driver = smtp
  port = ${bounces.port}
  allow_localhost
begin retry
* * F,1h,10s
`
}
