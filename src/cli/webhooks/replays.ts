import { REPLAY_PACE, type ReplayState, type ReplayWish } from '#streams/replay/decide.ts'
import { failedPages } from '#src/actions/delivery-view.ts'
import { cancelReplay, countReplay, replaysOf, requestReplay } from '#src/actions/replay.ts'
import type { FailedPage } from '#src/actions/replay-job.ts'
import { Complaint } from '#src/base/errors.ts'
import { usageError } from '../command.ts'
import { granted } from '../open-services.ts'
import { sinceMs, timeMs } from '../since.ts'
import { print } from '../table.ts'
import { withAsker, withPostgres, type WebhookValues } from './options.ts'

/** `replay <webhook>`, or what it would send. */
export async function startReplay (webhook: string, values: WebhookValues): Promise<void> {
  const { account, json } = values
  const wish = wishOf(values)
  if (values['dry-run']) return await count(webhook, wish, values)
  print([
    rowOf(
      await withAsker(account, async (services, asker) => granted(await requestReplay(services, asker, webhook, wish)))
    )
  ], json)
}

function wishOf ({ failed, all, since, from, to, pace }: WebhookValues): ReplayWish {
  if (failed === all) throw usageError('Either --failed or --all: what failed, or every event.')
  if ((since === undefined) === (from === undefined)) throw usageError('Either --since or --from: from when on.')
  return {
    what: failed ? 'failed' : 'window',
    fromMs: since === undefined ? timeMs('from', from!) : sinceMs(since),
    toMs: to === undefined ? Date.now() : timeMs('to', to),
    pace: pace === undefined ? REPLAY_PACE : /^\d{1,5}$/.test(pace) ? Number(pace) : NaN
  }
}

async function count (webhook: string, wish: ReplayWish, { account, json }: WebhookValues): Promise<void> {
  const counted = async (failed?: FailedPage) =>
    await withAsker(
      account,
      async (services, asker) => granted(await countReplay(services, asker, webhook, wish, failed))
    )
  const { deliveries, events, types, whole } = wish.what === 'failed'
    ? await withPostgres(async pool => await counted(failedPages(pool)))
    : await counted()
  if (json) return print([{ deliveries, events, types, whole }], true)
  print([{ deliveries: whole ? deliveries : `more than ${deliveries}`, events, ...types }], false)
}

/** `replays <webhook>`: the newest first. */
export async function listReplays (webhook: string, { account, json }: WebhookValues): Promise<void> {
  print(
    await withAsker(account, async services => {
      if (services.directory.now.webhooks.get(webhook)?.account !== account) {
        throw new Complaint(`There is no webhook ${webhook}.`)
      }
      return (await replaysOf(services, webhook)).map(rowOf)
    }),
    json
  )
}

/** `cancel-replay <replay>`. */
export async function cancel (replay: string, { account, json }: WebhookValues): Promise<void> {
  print([
    rowOf(await withAsker(account, async (services, asker) => granted(await cancelReplay(services, asker, replay))))
  ], json)
}

function rowOf ({ replay, webhook, what, state, waits, from, to, pace, made, changedAt }: ReplayState) {
  return { id: replay, webhook, what, state, waits_for: waits, from, to, pace, made, changed_at: changedAt }
}
