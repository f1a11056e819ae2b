import { FEEDBACK_PROVIDERS } from '#streams/feedback-source/facts.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import {
  createFeedbackSource,
  deleteFeedbackSource,
  rotateFeedbackSource,
  changeFeedbackSource
} from '#src/actions/feedback-source.ts'
import { timestamp } from '#src/base/clock.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { bytesOf } from './input.ts'
import { granted, withServices } from './open-services.ts'
import { apiUrlOf, readSettings } from './settings.ts'
import { print } from './table.ts'

const options = {
  name: { type: 'string' },
  'key-file': { type: 'string' },
  'topic-arn': { type: 'string' },
  'only-account': { type: 'string' }
} as const

type Values = ReturnType<typeof readArgs<typeof options>>['values']

/** What each verb takes besides --json. */
const takes = new Map<string, Array<keyof typeof options>>([
  ['list', []],
  ['create', ['name', 'key-file', 'topic-arn', 'only-account']],
  ['change', ['name', 'key-file', 'topic-arn']],
  ['rotate', []],
  ['delete', []]
])
const KEY_BYTES_MAX = 4096
/** A mapping is made by the API: it is a document of its own. */
const PROVIDERS = FEEDBACK_PROVIDERS.filter(name => name !== 'generic')

export const feedbackSources: CliCommand = {
  usage: `jetpost feedback-sources [list] [--json]
jetpost feedback-sources create <provider> [--name <text>] [--key-file <path>] [--topic-arn <arn>]
                                [--only-account <id>] [--json]
jetpost feedback-sources change <id> [--name <text>] [--key-file <path>] [--topic-arn <arn>] [--json]
jetpost feedback-sources rotate <id> [--json]
jetpost feedback-sources delete <id> [--json]`,
  details: `  A relay that reports bounces and complaints has a URL of its own: create and rotate print it.
  <provider>      ${PROVIDERS.join(', ')}; others are made by the API
  --key-file      Mailgun's HTTP webhook signing key, or SendGrid's public key; - = standard input
  --topic-arn     the topic of Amazon SNS that ses reports by
  --only-account  the one account whose mail it may report on
  rotate          gives it a new URL; the one before works for 24 more hours`,
  async run (args) {
    const { positionals: [verb = 'list', what, ...more], values, given } = readArgs(args, options)
    if (!takes.has(verb)) throw noVerb(feedbackSources, 'feedback-sources', verb, takes.keys())
    takeOnly(given, [...takes.get(verb)!, 'json'], `feedback-sources ${verb}`)
    if (verb === 'list' && what === undefined) return await list(values)
    if (what === undefined || more.length > 0) throw misused(feedbackSources)
    if (verb === 'create') return await create(values, what)
    if (verb === 'change' && given.some(option => option !== 'json')) return await change(values, what)
    if (verb === 'rotate') return await rotate(values, what)
    if (verb === 'delete') return await remove(values, what)
    throw misused(feedbackSources)
  }
}

function rowOf ({ id, provider, name, topicArn, onlyAccount, previous, createdAt }: FeedbackSourceEntry) {
  return {
    id,
    provider,
    name,
    topic_arn: topicArn ?? '',
    only_account: onlyAccount ?? '',
    previous_url_until: previous === null ? '' : timestamp(previous.untilMs),
    created_at: createdAt
  }
}

async function list ({ json }: Values & { json: boolean }): Promise<void> {
  const all = await withServices(async services => [...services.directory.now.feedbackSources.values()])
  print(all.map(rowOf), json)
}

async function keyIn (path: string): Promise<string> {
  return (await bytesOf(path, KEY_BYTES_MAX)).toString('utf8').trim()
}

async function create (values: Values & { json: boolean }, what: string): Promise<void> {
  const provider = PROVIDERS.find(name => name === what)
  if (provider === undefined) throw usageError(`<provider> must be one of ${PROVIDERS.join(', ')}.`)
  const keyFile = values['key-file']
  const wish = {
    provider,
    name: values.name ?? provider,
    verificationKey: keyFile === undefined ? null : await keyIn(keyFile),
    topicArn: values['topic-arn'] ?? null,
    mapping: null,
    onlyAccount: values['only-account'] ?? null
  }
  const base = await baseUrl()
  const made = await withServices(async (services, by) => granted(await createFeedbackSource(services, by, wish)))
  print([{ id: made.feedbackSource.id, url: `${base}/feedback/${made.feedbackSource.id}/${made.secret}` }], values.json)
}

async function baseUrl (): Promise<string> {
  return apiUrlOf(await readSettings('NATS_URL'))
}

async function change (values: Values & { json: boolean }, id: string): Promise<void> {
  const { name, 'key-file': keyFile, 'topic-arn': topicArn } = values
  const wish = {
    ...(name === undefined ? {} : { name }),
    ...(keyFile === undefined ? {} : { verificationKey: await keyIn(keyFile) }),
    ...(topicArn === undefined ? {} : { topicArn })
  }
  const { feedbackSource } = await withServices(async (services, by) =>
    granted(await changeFeedbackSource(services, by, id, wish))
  )
  print([rowOf(feedbackSource)], values.json)
}

async function rotate ({ json }: Values & { json: boolean }, id: string): Promise<void> {
  const base = await baseUrl()
  const { secret } = await withServices(async (services, by) => granted(await rotateFeedbackSource(services, by, id)))
  print([{ id, url: `${base}/feedback/${id}/${secret}` }], json)
}

async function remove ({ json }: Values & { json: boolean }, id: string): Promise<void> {
  await withServices(async (services, by) => granted(await deleteFeedbackSource(services, by, id)))
  print([{ id, deleted: true }], json)
}
