import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import type { WebhookChanges } from '#streams/webhook/decide.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { changeWebhook, deleteWebhook, finishRotation, rotateSecret, testWebhook } from '#src/actions/webhook.ts'
import { Complaint } from '#src/base/errors.ts'
import { describeWebhook } from '#src/servers/api/webhooks.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { granted, knownAccount } from './open-services.ts'
import { print, printFields } from './table.ts'
import { relativeText } from './text.ts'
import { listDeliveries, resend, showDelivery } from './webhooks/deliveries.ts'
import { withAsker, webhookOptions, type WebhookValues, type WebhookVerb } from './webhooks/options.ts'
import { cancel, listReplays, startReplay } from './webhooks/replays.ts'

export const webhooks: CliCommand = {
  usage: `jetpost webhooks [list]
jetpost webhooks show|pause|resume|enable|delete <webhook>
jetpost webhooks rotate <webhook> [--finish]
jetpost webhooks test <webhook> [--type <type>]
jetpost webhooks deliveries [<webhook>] [--state … --event … --email … --since … --until … --error … --limit …]
jetpost webhooks delivery|resend <delivery>
jetpost webhooks replay <webhook> (--failed | --all) (--since 1h | --from <time> [--to <time>]) [--dry-run]
jetpost webhooks replays <webhook>
jetpost webhooks cancel-replay <replay>`,
  details: `  All take --account <id>, by default the first account, and --json. Those marked * need PostgreSQL.
  list                       the account's endpoints
  show <webhook>             one of them
  pause, resume, enable      a pause holds deliveries; a disabled endpoint gets events again from now on
  rotate <webhook>           shows a new signing secret, this once; for 24 hours the old one signs too.
                             --finish ends that now, as when others know the old secret
  delete <webhook>           removes it; its pending deliveries fail
  test <webhook>             sends an invented event; --type: ${EVENT_TYPES.join(', ')}
  deliveries [<webhook>] *   of one endpoint or of all, the newest first
                             --state pending|retrying|delivered|failed, --event <id>, --email <id>
                             --since 1h, --until 5m: requested in that window; times work too
                             --error: why the last request had no answer: ${ERROR_KINDS.join(', ')}
                             --limit 25: at most 1000; --cursor: where the last list ended
  delivery <delivery> *      one, with every request made for it and its body
  resend <delivery> *        sends it again, whatever its state: same id, same bytes
  replay <webhook>           sends again --failed: what failed in that window *, or --all: every event that
                             the endpoint listens to. --since 1h, or --from <time> and --to <time>
                             --pace 100: deliveries a second, 1 to 1000, behind what is new
                             --dry-run: only counts
  replays <webhook>          its replays of the last 30 days, the newest first
  cancel-replay <replay>     sends no more of it than what is already on its way`,
  async run (args) {
    const { positionals: [name = 'list', id, ...more], values, given } = readArgs(args, webhookOptions)
    const verb = verbs.get(name)
    if (verb === undefined) throw noVerb(webhooks, 'webhooks', name, verbs.keys())
    if (more.length > 0) throw misused(webhooks)
    takeOnly(given, [...verb.takes, 'account', 'json'], `webhooks ${name}`)
    if (id === undefined && verb.withoutId !== undefined) await verb.withoutId(values)
    else if (id !== undefined && verb.withId !== undefined) await verb.withId(id, values)
    else throw misused(webhooks)
  }
}

const verbs = new Map<string, WebhookVerb>([
  ['list', { takes: [], withoutId: list }],
  ['show', { takes: [], withId: showOne }],
  ['pause', { takes: [], withId: async (id, values) => await change(id, values, { paused: true }) }],
  ['resume', { takes: [], withId: async (id, values) => await change(id, values, { paused: false }) }],
  ['enable', { takes: [], withId: async (id, values) => await change(id, values, { enabled: true }) }],
  ['rotate', { takes: ['finish'], withId: rotate }],
  ['delete', { takes: [], withId: end }],
  ['test', { takes: ['type'], withId: test }],
  ['deliveries', {
    takes: ['state', 'event', 'email', 'error', 'since', 'until', 'limit', 'cursor'],
    withId: listDeliveries,
    withoutId: async values => await listDeliveries(undefined, values)
  }],
  ['delivery', { takes: [], withId: showDelivery }],
  ['resend', { takes: [], withId: resend }],
  ['replay', { takes: ['failed', 'all', 'since', 'from', 'to', 'pace', 'dry-run'], withId: startReplay }],
  ['replays', { takes: [], withId: listReplays }],
  ['cancel-replay', { takes: [], withId: cancel }]
])

async function list ({ account, json }: WebhookValues): Promise<void> {
  const own = await withAsker(account, async services => {
    knownAccount(services, account)
    return [...services.directory.now.webhooks.values()].filter(webhook => webhook.account === account)
  })
  print(json ? own.map(answerOf) : own.map(rowOf), json)
}

async function showOne (id: string, { account, json }: WebhookValues): Promise<void> {
  show(
    await withAsker(account, async services => {
      const webhook = services.directory.now.webhooks.get(id)
      if (webhook?.account !== account) throw new Complaint(`There is no webhook ${id}.`)
      return webhook
    }),
    json
  )
}

async function change (id: string, { account, json }: WebhookValues, changes: WebhookChanges): Promise<void> {
  show(
    await withAsker(
      account,
      async (services, asker) => granted(await changeWebhook(services, asker, id, changes)).webhook
    ),
    json
  )
}

async function rotate (id: string, { account, finish, json }: WebhookValues): Promise<void> {
  if (finish) {
    return show(
      await withAsker(account, async (services, asker) => granted(await finishRotation(services, asker, id)).webhook),
      json
    )
  }
  const { webhook, secret } = await withAsker(
    account,
    async (services, asker) => granted(await rotateSecret(services, asker, id))
  )
  const answer = answerOf(webhook)
  print([
    json ? { secret, ...answer } : { id, secret, previous_expires_at: answer.secret_rotation?.previous_expires_at }
  ], json)
}

async function end (id: string, { account, json }: WebhookValues): Promise<void> {
  await withAsker(account, async (services, asker) => granted(await deleteWebhook(services, asker, id)))
  print([{ id, deleted: true }], json)
}

async function test (id: string, { account, type, json }: WebhookValues): Promise<void> {
  const wanted = EVENT_TYPES.find(name => name === type)
  if (type !== undefined && wanted === undefined) {
    throw usageError(`There is no type ${type}: the types are ${EVENT_TYPES.join(', ')}.`)
  }
  const { event, delivery } = await withAsker(
    account,
    async (services, asker) => granted(await testWebhook(services, asker, id, wanted))
  )
  print([{ id: event, delivery_id: delivery }], json)
}

function show (webhook: WebhookEntry, json: boolean): void {
  const answer = answerOf(webhook)
  if (json) return print([answer], true)
  const { events, batch, secret_rotation: rotation, ...plain } = answer
  const row = {
    ...plain,
    events: events.join(),
    batch: batch === null ? null : `${batch.max_events} events or ${batch.max_wait_ms} ms`,
    previous_secret_expires_at: rotation?.previous_expires_at ?? null
  }
  printFields(row)
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
    : `failing since ${relativeText(Date.parse(failing), Date.now())}`
  return { id, state, url, events: events.join() }
}
