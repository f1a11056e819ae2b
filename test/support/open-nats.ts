import { asError } from '#src/base/errors.ts'
import { findDockerEngine, startNatsContainer } from './nats-container.ts'
import { startNatsBinary } from './nats-embedded.ts'
import type { Opening, TestNats } from './opening.ts'

/**
 * One NATS server for all tests: by testcontainers where a Docker engine answers, else the embedded binary, and
 * `say` tells which. JETPOST_TEST_NATS=testcontainers or =embedded allows only that one.
 */
export async function openNats (opening: Opening): Promise<TestNats> {
  const wanted = process.env.JETPOST_TEST_NATS || 'either'
  const { nats, why } = await start(wanted, opening)
  opening.say(`NATS for the tests: ${nats.about}${why}`)
  return nats
}

/** `why` is not empty when it is not the first choice. */
async function start (wanted: string, opening: Opening): Promise<{ nats: TestNats, why: string }> {
  switch (wanted) {
    case 'testcontainers':
      return { nats: await startContainer(), why: '' }
    case 'embedded':
      return { nats: await startNatsBinary(opening), why: ', as JETPOST_TEST_NATS asks' }
    case 'either':
      return startEither(opening)
    default:
      throw new Error(`JETPOST_TEST_NATS is "testcontainers" or "embedded", not "${wanted}"`)
  }
}

async function startEither (opening: Opening): Promise<{ nats: TestNats, why: string }> {
  try {
    return { nats: await startContainer(), why: '' }
  } catch (error) {
    return {
      nats: await startNatsBinary(opening),
      why: `, because testcontainers could not: ${asError(error).message.trim()}`
    }
  }
}

async function startContainer (): Promise<TestNats> {
  await findDockerEngine()
  return startNatsContainer()
}
