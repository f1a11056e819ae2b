import { existsSync } from 'node:fs'
import { BACKED_UP } from '#streams/backup.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { nextStep } from '#streams/email/decide.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient } from '#streams/email/state.ts'
import { groupsOf } from '#streams/groups.ts'
import { streamPlans } from '#streams/topology.ts'
import { subjects } from '#streams/subjects.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { changeRecipients } from '#src/actions/recipient.ts'
import type { StoredRequest } from '#src/actions/stored-request.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { readConfig, type Config } from '#src/base/config.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { secretsFile, secretsOf } from '#src/base/secret.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { createLookup, type Lookup } from '#src/nats/lookup.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readPages } from '#src/nats/range.ts'
import { configWhileRestoring, makePlace, release, removeStream } from '#src/nats/restoring.ts'
import { restoreStream } from '#src/nats/snapshot.ts'
import {
  examineSeal,
  readAbout,
  readArchive,
  readManifest,
  verifyFiles,
  type Manifest,
  type StreamCopy
} from './backup-folder.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { openGauge, type Gauge } from './gauge.ts'
import { openBus } from './open-services.ts'
import { stopped } from './since.ts'

/** Recipients of live mail whose outcome a restored log does not know. */
interface Unsettled {
  /** Their time has come, so they may have had the mail after the backup: a Jetpost sends to them as soon as it starts.
   */
  due: number
  /** Their time has not come: what was to be sent later, and retries. */
  later: number
  /** Of those due, canceled. */
  canceled: number
}

const FACTS = 1000
const ASKED_AT_ONCE = 512
const CANCELED_AT_ONCE = 100
const PAGE_BYTES = 8 * 1024 * 1024

/** Finds for every recipient what a sender would do now, by the last of its facts; `cancel`: cancels those due. Reads
 *  REQUESTS once, page by page. */
export async function countUnsettled (bus: Bus, cancel: boolean, signal: AbortSignal): Promise<Unsettled> {
  const lookup = createLookup(bus, 'EMAILS')
  const factLog = createFactLog(bus, systemClock)
  const unsettled: Unsettled = { due: 0, later: 0, canceled: 0 }
  const limits = { max: () => FACTS, bytesMax: PAGE_BYTES }
  for await (const messages of readPages(bus, 'REQUESTS', { filter: null, afterSeq: 0 }, limits)) {
    signal.throwIfAborted()
    const requests = messages.map(decodeMessage).filter((found): found is StoredRequest =>
      found.fact.type === 'email.requested' && !found.fact.data.test
    )
    const steps = await stepsOf(lookup, requests)
    unsettled.later += steps.filter(({ step }) => step === 'schedule').length
    const due = steps.filter(({ step }) => step === 'send' || step === 'doubt')
    unsettled.due += due.length
    if (!cancel) continue
    for (const some of groupsOf(due, CANCELED_AT_ONCE)) {
      const results = await Promise.all(
        some.map(({ request, n }) => changeRecipients(factLog, [{ ref: { request, n }, change: { name: 'Cancel' } }]))
      )
      unsettled.canceled += results.filter(([result]) => result!.refusal === null).length
    }
  }
  return unsettled
}

async function stepsOf (lookup: Lookup, requests: StoredRequest[]) {
  const refs = requests.flatMap(request => request.fact.data.recipients.map((_recipient, n) => ({ request, n })))
  const last: Array<AnyFact | null> = []
  // Each lookup has its own deadline, from when it is asked.
  for (const some of groupsOf(refs, ASKED_AT_ONCE)) {
    last.push(
      ...await lookup.last(some.map(({ request: { fact }, n }) => subjects.recipient(fact.account, fact.data.email, n)))
    )
  }
  return refs.map(({ request, n }, i) => ({ request, n, step: stepOf(request, last[i]!) }))
}

/** The last fact has the status; a sender that was at it is gone. */
function stepOf ({ fact: { data } }: StoredRequest, last: AnyFact | null): ReturnType<typeof nextStep>['do'] {
  if (last?.type === 'email.erased') return 'nothing'
  const before = newRecipient(data.scheduledAt)
  const state = last === null ? before : evolve(before, last as RecipientFact)
  return nextStep(state, { nowMs: Date.now(), request: data, voidClaim: null }, true).do
}

const OPTIONS = {
  check: { type: 'boolean', default: false },
  cancel: { type: 'boolean', default: false },
  'other-secret': { type: 'boolean', default: false }
} as const

export const restore: CliCommand = {
  usage: 'jetpost restore <folder> [--check | --cancel] [--other-secret] [--json]',
  details: `  Restores into a NATS or a data folder that has no log, while no Jetpost runs there. Mail whose end the
  backup does not know is sent by the next start, also what went out between backup and loss: those
  recipients may get it twice.
  --check         only verifies the files
  --cancel        cancels recipients whose time has come instead; they get nothing unless you send it again.
                  Those in doubt stay: they were being sent to when the backup was made, or how it ended is unknown
  --other-secret  restores although JETPOST_SECRET is another than the backup's: secrets of webhooks and DKIM
                  keys cannot be opened then, and links and return paths of mail that went out are void`,
  async run (args) {
    const { positionals: [folder, ...more], values } = readArgs(args, OPTIONS)
    if (folder === undefined || more.length > 0) throw misused(restore)
    const config = readConfig(process.env)
    const restoring = {
      folder,
      config,
      manifest: readManifest(folder),
      gauge: openGauge(),
      signal: stopped(),
      cancel: values.cancel
    }
    if (!values['other-secret']) await checkSeal(restoring.manifest, config)
    await checkFiles(restoring)
    if (values.check) {
      return restoring.gauge.say(
        `${folder} is complete, made ${restoring.manifest.startedAt} by Jetpost ${restoring.manifest.jetpost}.`
      )
    }
    const result = await atTarget(restoring, bus => restoreLog(restoring, bus))
    if (values.json) return void process.stdout.write(`${JSON.stringify(result, null, 2)}\n`)
    sayResult(restoring, result)
  }
}

interface Restoring {
  folder: string
  config: Config
  manifest: Manifest
  gauge: Gauge
  signal: AbortSignal
  cancel: boolean
}

interface RestoreResult {
  streams: Array<{ stream: string, messages: number, last_seq: number }>
  unsettled: Unsettled
}

/** Throws a Complaint unless the backup was sealed with the present secret. A missing one is not created here. */
async function checkSeal (manifest: Manifest, { secret, dataDir }: Config): Promise<void> {
  if (secret === null && !existsSync(secretsFile(dataDir))) {
    throw new Complaint(
      `There is no secret in ${dataDir}: copy the file \`secret\` of the lost data folder there, or set ` +
        'JETPOST_SECRET (or give --other-secret).'
    )
  }
  const verdict = examineSeal(manifest, secret ?? await secretsOf(dataDir))
  if (verdict === 'changed') throw new Complaint('manifest.json was changed since the backup was made.')
  if (verdict === 'another secret') {
    throw new Complaint(
      'JETPOST_SECRET does not hold the one this backup was made with, or its manifest was changed: its sealed ' +
        'secrets could not be opened (--other-secret restores it nevertheless).'
    )
  }
}

async function checkFiles ({ folder, manifest, gauge, signal }: Restoring): Promise<void> {
  gauge.next('Reading the backup:', manifest.streams.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))
  await verifyFiles(folder, manifest, gauge, signal).catch(unlessStopped(signal, 'Stopped: nothing was changed.'))
}

function unlessStopped (signal: AbortSignal, sentence: string) {
  return (error: unknown): never => {
    throw signal.aborted ? new Complaint(sentence) : error
  }
}

/** With NATS_URL's server, or one that runs in the data folder meanwhile. */
async function atTarget (restoring: Restoring, use: (bus: Bus) => Promise<RestoreResult>): Promise<RestoreResult> {
  const { config } = restoring
  const log = createLog('error')
  if (config.natsUrl !== null) return await atBus(await openBus(config, log), use)
  const { dataDir, natsBin, natsPort, postgresPort } = config
  const { gauge: { say }, signal } = restoring
  const embedded = await startEmbedded({
    dataDir,
    nats: true,
    postgres: false,
    natsBin,
    natsPort,
    postgresPort,
    log,
    say,
    signal
  })
  try {
    return await atBus(await openEmbedded(embedded.natsUrl!, log), use)
  } finally {
    await embedded.stop()
  }
}

async function openEmbedded (url: string, log: Log): Promise<Bus> {
  return await connectBus({ url, creds: null, name: 'jetpost cli', log })
}

async function atBus<T> (bus: Bus, use: (bus: Bus) => Promise<T>): Promise<T> {
  try {
    return await use(bus)
  } finally {
    await bus.close()
  }
}

/** All or nothing: when something fails, what was restored is removed. The next restore recognises one that was killed,
 *  and starts over. */
async function restoreLog (restoring: Restoring, bus: Bus): Promise<RestoreResult> {
  const { config, signal } = restoring
  const plans = streamPlans({ factsMs: config.factsRetentionMs, contentMs: config.contentRetentionMs })
  await makePlace(bus, plans.filter(({ storage }) => storage === 'file').map(({ name }) => name))
  try {
    const streams = await restoreAll(restoring, bus)
    restoring.gauge.next('Looking for mail without an outcome', null)
    const unsettled = await countUnsettled(bus, restoring.cancel, signal)
    signal.throwIfAborted()
    await release(bus, BACKED_UP)
    return { streams, unsettled }
  } catch (error) {
    const removed = await Promise.all(BACKED_UP.map(stream => removeStream(bus, stream))).then(() => true, () => false)
    const sentence = signal.aborted ? 'Stopped' : asError(error).message
    throw new Complaint(
      `${sentence}: ${
        removed
          ? 'what was restored has been removed'
          : 'what was restored could not be removed: the next restore does so'
      }.`,
      { cause: error }
    )
  }
}

async function restoreAll (restoring: Restoring, bus: Bus): Promise<RestoreResult['streams']> {
  const since = timestamp(Date.now())
  const restored: RestoreResult['streams'] = []
  for (const copy of restoring.manifest.streams) {
    restored.push(
      await restoreOne(restoring, bus, copy, since).catch(error => {
        throw new Error(`${copy.stream} could not be restored (${asError(error).message})`, { cause: error })
      })
    )
  }
  return restored
}

async function restoreOne (
  { folder, config, gauge, signal }: Restoring,
  bus: Bus,
  { stream, sizeBytes, lastSeq }: StreamCopy,
  since: string
) {
  gauge.next(stream, sizeBytes)
  const { config: was, state } = readAbout(folder, stream)
  if (was.name !== stream) throw new Error('its description is of another stream')
  const about = { config: configWhileRestoring(was, config.natsReplicas, since), state }
  const { messages, last_seq } = await restoreStream(bus, about, readArchive(folder, stream, gauge, signal))
  if (last_seq !== lastSeq) throw new Error(`it has come to sequence ${last_seq} instead of ${lastSeq}`)
  gauge.say(`${stream}: ${messages} messages up to ${last_seq}`)
  return { stream, messages, last_seq }
}

function sayResult (
  { manifest, gauge: { say } }: Restoring,
  { unsettled: { due, later, canceled } }: RestoreResult
): void {
  say(`The log is as it was at ${manifest.startedAt}: later facts are lost.`)
  say(`Recipients whose time has come: ${due}, of them canceled: ${canceled}. ${
    due - canceled === 0
      ? 'None of them is sent to.'
      : `Jetpost sends to ${
        due - canceled
      } of them when it starts, also to those who got theirs between backup and loss.`
  }`)
  if (due > canceled) {
    say(
      'To choose among them: start with JETPOST_ROLES=api,projector, cancel what must not go out, then start all roles.'
    )
  }
  if (later > 0) say(`Recipients whose time is still to come: ${later}.`)
  say(
    'Addresses that were erased after the backup are back: erase them again. If PostgreSQL has seen the lost log, ' +
      'run `jetpost rebuild all` after the start.'
  )
}
