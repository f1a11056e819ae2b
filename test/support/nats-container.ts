import { randomUUID } from 'node:crypto'
import { GenericContainer, Wait, getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers'
import { deadline } from '#src/base/errors.ts'
import { natsConfig } from './nats-config.ts'
import type { TestNats } from './opening.ts'

/** The official image at the version the embedded server is pinned at. */
const IMAGE_DEFAULT = 'nats:2.15.2-alpine'
const PORT = 4222
const CONFIG_PATH = '/etc/jetpost-test.conf'
const ENGINE_TIMEOUT_MS = 10_000
/** Long: the first start may have to fetch the image. */
const START_TIMEOUT_MS = 180_000

/** Rejects when no Docker engine answers in time. */
export async function findDockerEngine (): Promise<void> {
  await deadline(getContainerRuntimeClient(), ENGINE_TIMEOUT_MS, 'it took too long').catch(cause => {
    throw new Error('no Docker engine answered', { cause })
  })
}

/** Starts the image of JETPOST_TEST_NATS_IMAGE, or the official one. Rejects with the engine's reason when it does not
 *  come up. */
export async function startNatsContainer (): Promise<TestNats> {
  const image = process.env.JETPOST_TEST_NATS_IMAGE || IMAGE_DEFAULT
  const password = randomUUID()
  const starting = describeContainer(image, password).start()
  const late = `${image} did not start within ${START_TIMEOUT_MS / 1000} s`
  const container = await deadline(starting, START_TIMEOUT_MS, late).catch(error => {
    starting.then(unwanted => unwanted.stop(), () => {})
    throw error
  })
  return {
    // By number: the name may be one that only a name server is asked for.
    host: container.getHost() === 'localhost' ? '127.0.0.1' : container.getHost(),
    port: container.getMappedPort(PORT),
    password,
    about: `testcontainers (image ${image})`,
    containerId: container.getId(),
    stop: () => stopContainer(container)
  }
}

/** Removes a container that a killed run left behind; says nothing when it is gone already. */
export async function removeContainer (containerId: string): Promise<void> {
  await findDockerEngine()
  const engine = await getContainerRuntimeClient()
  const removing = engine.container.getById(containerId).remove({ force: true })
  await deadline(removing, ENGINE_TIMEOUT_MS, 'the Docker engine removed nothing in time')
}

function describeContainer (image: string, password: string): GenericContainer {
  return new GenericContainer(image)
    .withCommand(['--config', CONFIG_PATH])
    .withCopyContentToContainer([{ target: CONFIG_PATH, content: natsConfig(`0.0.0.0:${PORT}`, '/data', password) }])
    .withTmpFs({ '/data': 'rw' })
    .withExposedPorts(PORT)
    // By its log: an image from scratch has no shell to look for the port from inside.
    .withWaitStrategy(Wait.forLogMessage('Server is ready'))
    .withStartupTimeout(START_TIMEOUT_MS)
}

async function stopContainer (container: StartedTestContainer): Promise<void> {
  await container.stop({ timeout: 2000 })
}
