import { createHash } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { BACKED_UP, type BackedUp } from '#streams/backup.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Ring } from '#src/base/config-values.ts'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { createVault, sha256Hex } from '#src/base/secret.ts'
import { privateFolder, syncFolder, writePrivateFile } from '#src/embedded/private-file.ts'
import type { StreamAbout } from '#src/nats/snapshot.ts'
import type { Gauge } from './gauge.ts'

/** The folder of a backup, 0700, files 0600: a folder for each stream, laid out as `nats stream backup` does it, with
 *  the server's archive and what the stream is; and the manifest, written last: without it a backup is not complete. */
const MANIFEST = 'manifest.json'
const ARCHIVE = 'stream.tar.s2'
const ABOUT = 'backup.json'

const Digest = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Count = Type.Integer({ minimum: 0 })

const CopySchema = Type.Object({
  stream: Type.Union(BACKED_UP.map(name => Type.Literal(name))),
  copiedAt: Type.String(),
  messages: Count,
  firstSeq: Count,
  lastSeq: Count,
  /** Of the archive; `sha256` in hex. */
  sizeBytes: Count,
  sha256: Digest,
  /** Of what the stream is. */
  aboutSha256: Digest
})

/** What one stream's copy is. */
export type StreamCopy = Static<typeof CopySchema>

const BackupContentSchema = Type.Object({
  format: Type.Literal(1),
  /** The version that made it. */
  jetpost: Type.String(),
  startedAt: Type.String(),
  finishedAt: Type.String(),
  streams: Type.Array(CopySchema)
})

/** What a backup holds; `seal` is the SHA-256 of the rest, sealed with JETPOST_SECRET: proves that nothing here was
 *  changed, and which secret belongs to it. */
const ManifestSchema = Type.Composite([BackupContentSchema, Type.Object({ seal: Type.String() })])

type BackupContent = Static<typeof BackupContentSchema>
export type Manifest = Static<typeof ManifestSchema>

/** Makes the folder. Throws a Complaint when there is something in it. */
export function openNewFolder (folder: string): void {
  try {
    if (existsSync(folder) && readdirSync(folder).length > 0) {
      const what = existsSync(join(folder, MANIFEST)) ? 'holds a backup' : 'is not empty'
      throw new Complaint(`${folder} ${what}: each backup needs a folder of its own.`)
    }
    privateFolder(folder)
  } catch (error) {
    throw error instanceof Complaint
      ? error
      : new Complaint(`${folder} cannot be written (${errorCode(error)}).`, { cause: error })
  }
}

/** Removes what a failed backup has written. */
export function clearFolder (folder: string): void {
  for (const stream of BACKED_UP) rmSync(join(folder, stream), { recursive: true, force: true })
}

/** Writes the bytes that `copy` passes on, durably, and then its description of the stream. */
export async function writeCopy (
  folder: string,
  stream: BackedUp,
  copy: (keep: (bytes: Uint8Array) => Promise<void>) => Promise<StreamAbout>
): Promise<StreamCopy> {
  const copiedAt = timestamp(Date.now())
  const place = join(folder, stream)
  mkdirSync(place, { mode: 0o700 })
  const { about, sizeBytes, sha256 } = await writeArchive(join(place, ARCHIVE), copy)
  const text = JSON.stringify(about)
  writePrivateFile(join(place, ABOUT), text)
  syncFolder(folder)
  const { messages, first_seq: firstSeq, last_seq: lastSeq } = about.state
  return { stream, copiedAt, messages, firstSeq, lastSeq, sizeBytes, sha256, aboutSha256: sha256Hex(text) }
}

async function writeArchive (path: string, copy: (keep: (bytes: Uint8Array) => Promise<void>) => Promise<StreamAbout>) {
  const file = await open(path, 'wx', 0o600)
  try {
    const hash = createHash('sha256')
    let sizeBytes = 0
    const about = await copy(async bytes => {
      hash.update(bytes)
      sizeBytes += bytes.length
      await file.writeFile(bytes)
    })
    await file.sync()
    return { about, sizeBytes, sha256: hash.digest('hex') }
  } finally {
    await file.close()
  }
}

/** Marks the backup as complete. */
export function writeManifest (folder: string, content: Omit<BackupContent, 'format'>, secrets: Ring): Manifest {
  const all: BackupContent = { format: 1, ...content }
  const manifest = { ...all, seal: createVault(...secrets).seal(digestOf(all), 'backup') }
  writePrivateFile(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`)
  return manifest
}

function digestOf ({ format, jetpost, startedAt, finishedAt, streams }: BackupContent): string {
  return sha256Hex(JSON.stringify({ format, jetpost, startedAt, finishedAt, streams }))
}

/** Throws a Complaint when the folder holds no complete backup. */
export function readManifest (folder: string): Manifest {
  const path = join(folder, MANIFEST)
  if (!existsSync(path)) {
    throw new Complaint(`${folder} holds no complete backup: there is no ${MANIFEST}, which is written last.`)
  }
  const manifest = parse(path)
  if (
    !Value.Check(ManifestSchema, manifest) || manifest.streams.map(({ stream }) => stream).join() !== BACKED_UP.join()
  ) {
    throw new Complaint(`${path} is not what this version of Jetpost writes.`)
  }
  return manifest
}

function parse (path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new Complaint(`${path} cannot be read.`, { cause: error })
  }
}

/** What the seal says: unchanged, changed since, or sealed with another secret (or itself changed). */
export function examineSeal ({ seal, ...content }: Manifest, secrets: Ring): 'whole' | 'changed' | 'another secret' {
  try {
    return createVault(...secrets).open(seal, 'backup') === digestOf(content) ? 'whole' : 'changed'
  } catch {
    return 'another secret'
  }
}

/** Reads every file and compares it with the manifest. Throws a Complaint that names the first that is not what was
 *  written. */
export async function verifyFiles (
  folder: string,
  { streams }: Manifest,
  gauge: Gauge,
  signal: AbortSignal
): Promise<void> {
  for (const { stream, sizeBytes, sha256, aboutSha256 } of streams) {
    const found = await digestFile(join(folder, stream, ARCHIVE), gauge, signal)
    if (found.sizeBytes !== sizeBytes) {
      throw new Complaint(
        `${join(folder, stream, ARCHIVE)} has ${found.sizeBytes} bytes instead of ${sizeBytes}: the backup is damaged.`
      )
    }
    if (found.sha256 !== sha256) {
      throw new Complaint(`${join(folder, stream, ARCHIVE)} is not what was written: the backup is damaged.`)
    }
    const about = await digestFile(join(folder, stream, ABOUT), gauge, signal)
    if (about.sha256 !== aboutSha256) {
      throw new Complaint(`${join(folder, stream, ABOUT)} is not what was written: the backup is damaged.`)
    }
  }
}

async function digestFile (
  path: string,
  gauge: Gauge,
  signal: AbortSignal
): Promise<{ sizeBytes: number, sha256: string }> {
  const hash = createHash('sha256')
  let sizeBytes = 0
  try {
    for await (const bytes of createReadStream(path, { signal })) {
      hash.update(bytes)
      sizeBytes += bytes.length
      gauge.add(bytes.length)
    }
  } catch (error) {
    if (signal.aborted) throw error
    throw new Complaint(`${path} cannot be read (${errorCode(error)}): the backup is damaged.`, { cause: error })
  }
  return { sizeBytes, sha256: hash.digest('hex') }
}

export function readAbout (folder: string, stream: BackedUp): StreamAbout {
  return JSON.parse(readFileSync(join(folder, stream, ABOUT), 'utf8'))
}

/** The archive of a stream, piece by piece. */
export async function* readArchive (
  folder: string,
  stream: BackedUp,
  gauge: Gauge,
  signal: AbortSignal
): AsyncGenerator<Uint8Array> {
  for await (const bytes of createReadStream(join(folder, stream, ARCHIVE), { signal })) {
    yield bytes
    gauge.add(bytes.length)
  }
}
