import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import type { WebhookChanges } from '#streams/webhook/decide.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { changeWebhook, deleteWebhook, finishRotation, rotateSecret, testWebhook } from '#src/actions/webhook.ts'
import { Complaint } from '#src/base/errors.ts'
import { describeWebhook } from '#src/servers/api/webhooks.ts'
import { print, readArgs, takeOnly, usageError, type Command } from './command.ts'
import { granted, knownAccount } from './open-services.ts'
import { listThem, resend, showOne } from './webhooks/deliveries.ts'
import { asAsker, webhookOptions, type Values, type Verb } from './webhooks/options.ts'
import { cancel, listReplays, startReplay } from './webhooks/replays.ts'

export const webhooks: Command = {
  usage:
    'jetpost webhooks [list | show|pause|resume|enable|delete <webhook> | rotate <webhook> [--finish] | test <webhook> [--type <type>] | ' +
    'deliveries [<webhook>] | delivery|resend <delivery> | replay <webhook> (--failed | --all) (--since 1h | --from <time>) | replays <webhook> | ' +
    'cancel-replay <replay>] [--account <id>] [--json]',
  means: 'webhook endpoints, the log of their deliveries, and sending them again; --help shows all options',
  details: `  list                       the account's endpoints
  show <webhook>             one of them
  pause, resume, enable <webhook>
                             a pause holds what is owed; what was disabled gets its events again, from now on
  rotate <webhook>           a new signing secret, shown once; for 24 hours the one before signs too. --finish ends that now: of a secret
                             that others know, too
  delete <webhook>           ends it; what is still owed to it fails
  test <webhook>             sends a made-up event; --type: ${EVENT_TYPES.join(', ')}
  deliveries [<webhook>]     of one endpoint or of all, the newest first (PostgreSQL). --state pending|retrying|delivered|failed, --event <id>,
                             --email <id>, --since 1h and --until 5m: asked for since then and before then, times will do too,
                             --error: why its last request had no answer: ${ERROR_KINDS.join(', ')},
                             --limit 25: at most 1000, --cursor: where the list before left off
  delivery <delivery>        one with every request made for it, and its body (PostgreSQL)
  resend <delivery>          sends it again, whatever became of it: same id, same bytes (PostgreSQL)
  replay <webhook>           sends again --failed: what failed then (PostgreSQL), or --all: every event of then that it listens to.
                             --since 1h, or --from <time> and --to <time>; --pace 100: deliveries a second, 1 to 1000, after what is new;
                             --dry-run counts what it would send and changes nothing
  replays <webhook>          its replays of the last 30 days, the newest first
  cancel-replay <replay>     no more of it is sent than it has asked for already`,
  async run (args) {
    const { positionals: [name = 'list', id, ...more], values, given } = readArgs(args, webhookOptions)
    const verb = verbs.get(name)
    if (verb === undefined || more.length > 0) throw usageError(`usage: ${webhooks.usage}`)
    takeOnly(given, [...verb.takes, 'account', 'json'], `webhooks ${name}`)
    if (id === undefined && verb.alone !== undefined) await verb.alone(values)
    else if (id !== undefined && verb.about !== undefined) await verb.about(id, values)
    else throw usageError(`usage: ${webhooks.usage}`)
  }
}

const verbs = new Map<string, Verb>([
  ['list', { takes: [], alone: list }],
  ['show', { takes: [], about: show }],
  ['pause', { takes: [], about: async (id, values) => await change(id, values, { paused: true }) }],
  ['resume', { takes: [], about: async (id, values) => await change(id, values, { paused: false }) }],
  ['enable', { takes: [], about: async (id, values) => await change(id, values, { enabled: true }) }],
  ['rotate', { takes: ['finish'], about: rotate }],
  ['delete', { takes: [], about: end }],
  ['test', { takes: ['type'], about: test }],
  ['deliveries', {
    takes: ['state', 'event', 'email', 'error', 'since', 'until', 'limit', 'cursor'],
    about: listThem,
    alone: async values => await listThem(undefined, values)
  }],
  ['delivery', { takes: [], about: showOne }],
  ['resend', { takes: [], about: resend }],
  ['replay', { takes: ['failed', 'all', 'since', 'from', 'to', 'pace', 'dry-run'], about: startReplay }],
  ['replays', { takes: [], about: listReplays }],
  ['cancel-replay', { takes: [], about: cancel }]
])

async function list ({ account, json }: Values): Promise<void> {
  const own = await asAsker(account, async services => {
    knownAccount(services, account)
    return [...services.directory.now.webhooks.values()].filter(webhook => webhook.account === account)
  })
  print(json ? own.map(answerOf) : own.map(rowOf), json)
}

async function show (id: string, { account, json }: Values): Promise<void> {
  tell(
    await asAsker(account, async services => {
      const webhook = services.directory.now.webhooks.get(id)
      if (webhook?.account !== account) throw new Complaint(`There is no webhook ${id}.`)
      return webhook
    }),
    json
  )
}

async function change (id: string, { account, json }: Values, changes: WebhookChanges): Promise<void> {
  tell(
    await asAsker(
      account,
      async (services, asker) => granted(await changeWebhook(services, asker, id, changes)).webhook
    ),
    json
  )
}

async function rotate (id: string, { account, finish, json }: Values): Promise<void> {
  if (finish) {
    return tell(
      await asAsker(account, async (services, asker) => granted(await finishRotation(services, asker, id)).webhook),
      json
    )
  }
  const { webhook, secret } = await asAsker(
    account,
    async (services, asker) => granted(await rotateSecret(services, asker, id))
  )
  const answer = answerOf(webhook)
  print([
    json ? { secret, ...answer } : { id, secret, previous_expires_at: answer.secret_rotation?.previous_expires_at }
  ], json)
}

async function end (id: string, { account, json }: Values): Promise<void> {
  await asAsker(account, async (services, asker) => granted(await deleteWebhook(services, asker, id)))
  print([{ id, deleted: true }], json)
}

async function test (id: string, { account, type, json }: Values): Promise<void> {
  const wanted = EVENT_TYPES.find(name => name === type)
  if (type !== undefined && wanted === undefined) {
    throw usageError(`There is no type ${type}: the types are ${EVENT_TYPES.join(', ')}.`)
  }
  const { event, delivery } = await asAsker(
    account,
    async (services, asker) => granted(await testWebhook(services, asker, id, wanted))
  )
  print([{ id: event, delivery_id: delivery }], json)
}

function tell (webhook: WebhookEntry, json: boolean): void {
  const answer = answerOf(webhook)
  if (json) return print([answer], true)
  const { events, batch, secret_rotation: rotation, ...plain } = answer
  const row = {
    ...plain,
    events: events.join(),
    batch: batch === null ? null : `${batch.max_events} events or ${batch.max_wait_ms} ms`,
    previous_secret_expires_at: rotation?.previous_expires_at ?? null
  }
  print(Object.entries(row).map(([field, value]) => ({ field, value: value ?? '-' })), false)
}

/** As the API shows it. */
const answerOf = (webhook: WebhookEntry) => describeWebhook(webhook, Date.now())

function rowOf (webhook: WebhookEntry) {
  const { id, url, events, paused, status, disabled_reason: reason, failing_since: failing } = answerOf(webhook)
  const state = status === 'disabled'
    ? `disabled (${reason})`
    : paused
    ? 'paused'
    : failing === null
    ? 'enabled'
    : `failing since ${failing}`
  return { id, state, url, events: events.join() }
}
