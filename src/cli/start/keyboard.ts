import { execFile, execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { html } from '#src/base/html.ts'
import type { Config } from '#src/base/config.ts'
import { privateFolder, writePrivateFile } from '#src/embedded/private-file.ts'
import type { App } from '#src/main.ts'
import { dashboardUrl } from './welcome.ts'

export interface KeyboardOptions {
  app: App
  config: Config
  write(line: string): void
  stop(): void
}

/** Obeys what is typed, a line each: `o` opens the dashboard, `q` stops. The terminal stays as it is: Ctrl-C, Ctrl-Z
 *  and scrolling work as ever, and nothing has to be restored if the process is killed. */
export function watchKeyboard ({ app, config, write, stop }: KeyboardOptions): void {
  if (!process.stdin.isTTY) return
  const onLine = (line: string) => {
    const key = line.trim().toLowerCase()
    if (key === 'q') stop()
    if (key === 'o') openDashboard(app, config, write)
  }
  createInterface({ input: process.stdin, terminal: false }).on('line', onLine)
  // Who reads a terminal in the background is stopped by it.
  const readInForeground = () => (isForeground() ? process.stdin.resume() : process.stdin.pause())
  process.on('SIGCONT', readInForeground)
  readInForeground()
}

/** Is this process one that its terminal listens to? Not after `&` or `bg`; where nobody can tell, no. */
function isForeground (): boolean {
  try {
    if (process.platform !== 'linux') {
      return execFileSync('ps', ['-o', 'stat=', '-p', String(process.pid)], { encoding: 'utf8' }).includes('+')
    }
    // Source: proc_pid_stat(5): pgrp and tpgid. The name before them may hold blanks and brackets.
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)!.split(' ')
    return fields[2] === fields[5]
  } catch {
    return false
  }
}

const OPEN_MS = 10_000

function openDashboard (app: App, config: Config, write: (line: string) => void): void {
  const path = app.mintSignInPath()
  if (path === null) return write('  There is no dashboard, or no key that opens it.')
  const url = dashboardUrl(app, config) + path
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  execFile(opener, [redirectPage(config.dataDir, url)], { timeout: OPEN_MS }, error => {
    if (error !== null) write(`  No browser could be opened (${opener}). The link: ${url}`)
  })
}

/** A page that leads to `url`, for its owner alone: everybody on the machine can read the arguments of a program, and
 *  the link signs in the first who opens it. */
function redirectPage (dataDir: string, url: string): string {
  const path = resolve(join(dataDir, 'open-dashboard.html'))
  privateFolder(dataDir)
  writePrivateFile(path, html`<!doctype html><meta http-equiv="refresh" content="0; url=${url}">`.text)
  return pathToFileURL(path).href
}
