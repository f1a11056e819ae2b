import { chmod, link, mkdir, readFile, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSecret } from './secret.ts'

/** The installation's own secret, made once in the data folder (0600) when the operator sets none. Two
 *  processes that start together end up with the same. */
export async function secretOf (dataDir: string): Promise<string> {
  const path = join(dataDir, 'secret')
  const known = await readFile(path, 'utf8').catch(() => null)
  if (known !== null) return known.trim()
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  // That another may pass through it, who runs PostgreSQL for root, is well.
  if (((await stat(dataDir)).mode & 0o067) !== 0) await chmod(dataDir, 0o700)
  const draft = `${path}.${process.pid}`
  await writeFile(draft, `${newSecret('')}\n`, { mode: 0o600, flush: true })
  await link(draft, path).catch(() => {})
  await unlink(draft)
  return (await readFile(path, 'utf8')).trim()
}
