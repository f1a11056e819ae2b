import { existsSync, statSync } from 'node:fs'
import { resealAll, type Resealing } from '#src/actions/reseal.ts'
import { timestamp } from '#src/base/clock.ts'
import { RING_MAX, type Ring } from '#src/base/config-values.ts'
import type { Config } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { keyIdOf, newSecret, secretsFile, secretsOf } from '#src/base/secret.ts'
import { writePrivateFile } from '#src/embedded/private-file.ts'
import { misused, noVerb, readArgs, type CliCommand } from './command.ts'
import { withServices } from './open-services.ts'
import { nothingRuns, readSettings, type CommandSettings } from './settings.ts'

const AGAIN = 'then run `jetpost secret rotate` again'
const HOW_TO_BEGIN =
  'JETPOST_SECRET is yours to change: put a new secret before it, with a comma between them (make one ' +
  `with: openssl rand -hex 32), restart the service with both, ${AGAIN} with both.`

export const secret: CliCommand = {
  usage: 'jetpost secret rotate [--new] [--json]',
  details:
    `  The ring is JETPOST_SECRET (secrets separated by commas), or the file \`secret\` of the data folder (a line
  each), newest first: the first seals and signs, all open and verify. Where the file has one secret, a new one is
  put first; the service uses it from its next start on. Where the ring has several, what an older one has sealed
  (webhook secrets, DKIM keys, URLs of routes) is sealed again with the first, while the service runs. Safe to
  repeat: it says what is left to do, and what an old secret is still needed for.
  --new  puts another one first although the file has several`,
  async run (args) {
    const { positionals: [verb, ...more], values } = readArgs(args, { new: { type: 'boolean', default: false } })
    if (verb === undefined || more.length > 0) throw misused(secret)
    if (verb !== 'rotate') throw noVerb(secret, 'secret', verb, ['rotate'])
    const settings = await readSettings('NATS_URL')
    const { config, missing } = settings
    const isOwn = config.secret === null && !missing.includes('JETPOST_SECRET')
    const path = secretsFile(config.dataDir)
    if (isOwn && !existsSync(path)) throw new Complaint(`${nothingRuns(config)}.`)
    const ring = isOwn ? await secretsOf(config.dataDir) : config.secret
    if (ring !== null) refuseStale(settings, ring, isOwn ? path : 'JETPOST_SECRET')
    const begins = ring !== null && (ring.length === 1 || values.new)
    if (!begins) return await reseal(config, values.json)
    if (!isOwn) throw new Complaint(HOW_TO_BEGIN)
    extendRing(path, ring)
    if (values.json) return console.log(JSON.stringify({ added: true }, null, 2))
    console.log(`A new secret stands first in ${path}: keep a copy of the file. Restart the service, ${AGAIN}.`)
  }
}

/** Until it is restarted, the service could not open what is sealed here. */
function refuseStale ({ service }: CommandSettings, [newest]: Ring, where: string): void {
  if (service?.keyIds === undefined || service.keyIds[0] === keyIdOf(newest)) return
  throw new Complaint(
    `The running service (process ${service.pid}) does not seal with the first secret of ${where}: restart it with ` +
      `that, ${AGAIN}.`
  )
}

/** Puts a new secret before the others. */
function extendRing (path: string, ring: Ring): void {
  if (ring.length === RING_MAX) {
    throw new Complaint(`${path} has ${RING_MAX} secrets, and may have no more: remove the last line first.`)
  }
  const owner = statSync(path).uid
  if (process.getuid !== undefined && process.getuid() !== owner) {
    throw new Complaint(`${path} belongs to user ${owner}: run this as that user, or the service cannot read it.`)
  }
  writePrivateFile(path, `${[newSecret(''), ...ring].join('\n')}\n`)
}

async function reseal ({ factsRetentionMs }: Config, json: boolean): Promise<void> {
  const resealing = await withServices(resealAll)
  const { lost, ...counts } = resealing
  const neededUntil = timestamp(Date.now() + factsRetentionMs)
  if (json) console.log(JSON.stringify({ added: false, ...counts, lost, links_until: neededUntil }, null, 2))
  else for (const line of sayings(resealing, neededUntil)) console.log(line)
  if (lost.length === 0) return
  throw new Complaint(
    `Nothing in JETPOST_SECRET opens the secrets of ${lost.slice(0, NAMED_MAX).join(', ')}${
      lost.length > NAMED_MAX ? ` and ${lost.length - NAMED_MAX} others` : ''
    }: add the secret they were sealed with behind the others, restart the service, ${AGAIN}.`
  )
}

const NAMED_MAX = 10

function sayings ({ webhooks, domains, routes, sources, erasures, lost }: Resealing, neededUntil: string): string[] {
  const done = `Sealed again with the first secret: webhook secrets ${webhooks}, domains' DKIM keys ${domains}, ` +
    `URLs of routes ${routes}, keys of feedback sources ${sources}.`
  if (lost.length > 0) return [done]
  if (erasures > 0) {
    return [
      done,
      `Erasures under way that an older secret has sealed: ${erasures}. Keep it until they are complete, ${AGAIN}.`
    ]
  }
  return [
    done,
    'Nothing is sealed with an older secret any more. Links, return paths and event cursors that it has signed end ' +
    `with it: keep it until ${neededUntil} for those of all mail on record, or remove it now if they may end.`,
    'Backups made until now are restored with it: keep a copy of it as long as you keep them.'
  ]
}
