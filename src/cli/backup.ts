import { BACKED_UP, type BackedUp } from '#streams/backup.ts'
import { recordBackup } from '#src/actions/backup.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import type { Ring } from '#src/base/config-values.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { copyStream } from '#src/nats/snapshot.ts'
import packageJson from '../../package.json' with { type: 'json' }
import {
  clearFolder,
  openNewFolder,
  writeCopy,
  writeManifest,
  type StreamCopy,
  type Manifest
} from './backup-folder.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { openGauge, sizeText, type Gauge } from './gauge.ts'
import { openBus } from './open-services.ts'
import { commandSecrets, readSettings } from './settings.ts'
import { stopped } from './since.ts'

export const backup: CliCommand = {
  usage: 'jetpost backup <folder> [--json]',
  details: `  Uses NATS's own stream backup, one stream after the other, effects before causes: nothing in a backup
  points at what is missing. Until manifest.json is written, a folder is no backup. It holds mail and
  addresses: protect it as you protect those. JETPOST_SECRET (or the file \`secret\` of the data folder) is
  not in it: store it where passwords are kept, and an old one for as long as a backup was made with it. jetpost
  restore brings the backup back.`,
  async run (args) {
    const { positionals: [folder, ...more], values } = readArgs(args, {})
    if (folder === undefined || more.length > 0) throw misused(backup)
    const settings = await readSettings('NATS_URL')
    const { config } = settings
    const gauge = openGauge()
    const bus = await openBus(config, createLog('error'))
    try {
      const secrets = await commandSecrets(settings)
      openNewFolder(folder)
      const manifest = await copyAll({ bus, folder, gauge, signal: stopped() }, secrets)
      await recordIt(bus, manifest, gauge)
      gauge.say(
        `${folder} is complete: ${
          sizeText(manifest.streams.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))
        }. JETPOST_SECRET is not in it.`
      )
      if (values.json) process.stdout.write(`${JSON.stringify(manifest, null, 2)}\n`)
    } finally {
      await bus.close()
    }
  }
}

/** For `jetpost doctor --production`. The backup is complete without it. */
async function recordIt (bus: Bus, { startedAt, streams }: Manifest, gauge: Gauge): Promise<void> {
  const sizeBytes = streams.reduce((sum, stream) => sum + stream.sizeBytes, 0)
  try {
    await recordBackup(createFactLog(bus, systemClock), newId('cli', Date.now()), { startedAt, sizeBytes })
  } catch (error) {
    gauge.say(`The log does not say that there is a backup (${asError(error).message}).`)
  }
}

interface Copying {
  bus: Bus
  folder: string
  gauge: Gauge
  signal: AbortSignal
}

/** A backup that fails leaves nothing behind. */
async function copyAll (copying: Copying, secrets: Ring): Promise<Manifest> {
  const startedAt = timestamp(Date.now())
  try {
    const streams: StreamCopy[] = []
    for (const stream of BACKED_UP) streams.push(await copyOne(copying, stream))
    await refuseErasure(copying.bus, streams)
    return writeManifest(copying.folder, {
      jetpost: packageJson.version,
      startedAt,
      finishedAt: timestamp(Date.now()),
      streams
    }, secrets)
  } catch (error) {
    clearFolder(copying.folder)
    throw error
  }
}

/** What an erasure deletes after CONTROL is copied would be missing from the backup without a reason, or still be in
 *  it. */
async function refuseErasure (bus: Bus, streams: readonly StreamCopy[]): Promise<void> {
  const { lastSeq } = streams.find(({ stream }) => stream === 'CONTROL')!
  if (await lastSequenceUnder(bus, 'CONTROL', 'erasure.>') > lastSeq) {
    throw new Complaint('An address was erased meanwhile: there is no backup. Start it again.')
  }
}

async function copyOne ({ bus, folder, gauge, signal }: Copying, stream: BackedUp): Promise<StreamCopy> {
  gauge.next(stream, null)
  try {
    const copy = await writeCopy(folder, stream, keep =>
      copyStream(bus, stream, async bytes => {
        signal.throwIfAborted()
        await keep(bytes)
        gauge.add(bytes.length)
      }))
    gauge.say(`${stream}: ${copy.messages} messages up to ${copy.lastSeq}, ${sizeText(copy.sizeBytes)}`)
    return copy
  } catch (error) {
    throw new Complaint(
      signal.aborted
        ? 'Stopped: there is no backup.'
        : `${stream} could not be copied (${asError(error).message}): there is no backup.`,
      { cause: error }
    )
  }
}
