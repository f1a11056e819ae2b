import { claim, dutyOf, end, isRaised, PATIENCE_MS, raise, tell, type AlertContext } from '#streams/alert/decide.ts'
import type { Condition } from '#streams/alert/decide.ts'
import { ALERT_KINDS, type AlertChannel, type AlertKind, type AlertState } from '#streams/alert/facts.ts'
import { AlertLog, recordAlert, type RecordedAlert } from '#src/actions/alert.ts'
import type { Services } from '#src/actions/services.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { lookAround, type AlertSources, type Look } from './conditions.ts'
import type { NoticeResult, Teller } from './teller.ts'

export interface AlertsOptions {
  services: Services
  sources: AlertSources
  teller: Teller
  log: Log
  onNotice(channel: AlertChannel, result: NoticeResult): void
  /** Between two rounds. */
  everyMs?: number
}

export interface AlertKeeper extends Role {
  /** Alerts that are not over, by kind, as of the last round. */
  open(): Record<string, number>
}

const EVERY_MS = 15_000
const ROUND_MS_MAX = 600_000
const PATIENCE_HEALTH_MS = 600_000
/** Of one round; the others follow in the next one. */
const DECISIONS_MAX = 50
/** So many alerts are open at once; what is worse than that shows on the first of them. */
const OPEN_MAX = 500

/** Looks, round after round, for what an operator must know, and sees that it is told once: when it begins and when it
 *  is over. Several processes may do so: the log takes a decision once, and one process at a time tells it. */
export function startAlerts (options: AlertsOptions): AlertKeeper {
  const { log, teller, everyMs = EVERY_MS } = options
  const watcher = new AlertWatcher(options)
  const rounds = repeat({
    name: 'alerts',
    async round (signal) {
      await watcher.round(signal)
      return everyMs
    },
    againMs: everyMs,
    roundMsMax: ROUND_MS_MAX,
    onError: error => log.warn({ err: error }, 'alerts interrupted; retrying'),
    unhealthyReason: ({ doneMs }) =>
      Date.now() - doneMs < PATIENCE_HEALTH_MS ? null : `nobody has looked for alerts since ${timestamp(doneMs)}`
  })
  return {
    name: rounds.name,
    unhealthyReason: () => rounds.unhealthyReason(),
    open: () => watcher.open(),
    async stop () {
      // A request under way is made again by the next process, with the same id.
      teller.cut()
      await rounds.stop()
      await teller.close()
    }
  }
}

class AlertWatcher {
  private readonly options: AlertsOptions
  private readonly alertLog: AlertLog
  private readonly id: string
  /** Since when a condition holds, or a raised one does not, as this process saw it. */
  private holding = new Map<string, { kind: AlertKind, sinceMs: number }>()
  private over = new Map<string, number>()

  constructor (options: AlertsOptions) {
    this.options = options
    this.alertLog = new AlertLog(options.services.factLog.bus)
    this.id = newId('w', Date.now())
  }

  open (): Record<string, number> {
    const counts = new Map(ALERT_KINDS.map(kind => [kind, 0]))
    for (const { state } of this.alertLog.alerts.values()) {
      if (isRaised(state)) counts.set(state.kind, counts.get(state.kind)! + 1)
    }
    return Object.fromEntries(counts)
  }

  /** Throws when NATS does not answer. */
  async round (signal: AbortSignal): Promise<void> {
    const { services: { directory }, sources } = this.options
    await this.alertLog.catchUp()
    const look = await lookAround(directory.now, sources)
    const due = [...this.dueToRaise(look), ...this.dueToEnd(look)]
    for (const decide of due.slice(0, DECISIONS_MAX)) {
      if (signal.aborted) return
      await decide()
    }
    await this.tellAll(signal)
  }

  private context (): AlertContext {
    const { services: { factLog: { clock } }, teller: { channels } } = this.options
    const nowMs = clock.nowMs()
    return { nowMs, id: newId('ev', nowMs), teller: this.id, channels }
  }

  private dueToRaise ({ conditions }: Look): Array<() => Promise<void>> {
    const { nowMs } = this.context()
    this.holding = new Map(conditions.map(({ alert, kind }) => {
      const before = this.holding.get(alert)
      return [alert, before?.kind === kind ? before : { kind, sinceMs: nowMs }]
    }))
    const openCount = [...this.alertLog.alerts.values()].filter(({ state }) => isRaised(state)).length
    return conditions
      .filter(({ alert, kind }) => nowMs - this.holding.get(alert)!.sinceMs >= PATIENCE_MS[kind].holdsMs)
      .filter(condition => raise(this.stateOf(condition.alert), condition, this.context()) !== null)
      .slice(0, Math.max(0, OPEN_MAX - openCount))
      .map(condition => async () => await this.raise(condition))
  }

  private dueToEnd ({ isKnown }: Look): Array<() => Promise<void>> {
    const { nowMs } = this.context()
    const raised = [...this.alertLog.alerts.values()].filter(({ state }) => isRaised(state))
    const gone = raised.filter(({ state }) => !this.holding.has(state.alert) && isKnown(state))
    this.over = new Map(gone.map(({ state: { alert } }) => [alert, this.over.get(alert) ?? nowMs]))
    return gone
      .filter(({ state: { alert, kind } }) => nowMs - this.over.get(alert)! >= PATIENCE_MS[kind].overMs)
      .map(recorded => async () => await this.end(recorded))
  }

  private stateOf (alert: string) {
    return this.alertLog.alerts.get(alert)?.state ?? null
  }

  private async raise (condition: Condition): Promise<void> {
    const { log } = this.options
    const context = this.context()
    const decided = raise(this.stateOf(condition.alert), condition, context)
    if (decided === null) return
    const seq = this.alertLog.alerts.get(condition.alert)?.seq ?? 0
    if (!await this.record(decided, seq, context.id)) return
    log.warn({ kind: condition.kind, about: condition.about, why: condition.why }, condition.what)
  }

  private async end ({ state, seq }: RecordedAlert): Promise<void> {
    const context = this.context()
    if (!await this.record(end(state, context), seq, context.id)) return
    this.options.log.info({ kind: state.kind, about: state.about }, `over: ${state.what}`)
  }

  /** False when another process was first: the next round knows more. */
  private async record (decided: ReturnType<typeof tell>, seq: number, id?: string): Promise<boolean> {
    const recorded = await recordAlert(this.options.services.factLog, decided, seq, id)
    if (recorded !== null) this.alertLog.take(recorded.state, recorded.seq)
    return recorded !== null
  }

  private async tellAll (signal: AbortSignal): Promise<void> {
    const untold = [...this.alertLog.alerts.values()].filter(({ state }) => this.dueChannels(state).length > 0)
    for (const { state: { alert } } of untold.slice(0, DECISIONS_MAX)) {
      if (signal.aborted) return
      await this.tell(alert)
    }
  }

  /** Those that can be tried now, and those that are configured no more. */
  private dueChannels ({ channels }: AlertState): AlertChannel[] {
    const { teller } = this.options
    return channels.filter(channel => !teller.channels.includes(channel) || teller.isReady(channel))
  }

  private async tell (alert: string): Promise<void> {
    const { teller, onNotice } = this.options
    const { state, seq } = this.alertLog.alerts.get(alert)!
    const duty = dutyOf(state, this.context())
    if (duty === 'nothing') return
    if (duty === 'give up') {
      if (await this.record(tell(state, state.channels), seq)) {
        for (const channel of state.channels) onNotice(channel, 'given_up')
      }
      return
    }
    if (duty === 'claim') {
      if (await this.record(claim(state, this.context()), seq)) await this.tell(alert)
      return
    }
    for (const channel of this.dueChannels(state)) {
      const result = teller.channels.includes(channel) ? await teller.tell(channel, state) : 'given_up'
      const now = this.alertLog.alerts.get(alert)!
      if (result !== 'failed' && !await this.record(tell(now.state, [channel]), now.seq)) return
      onNotice(channel, result)
    }
  }
}
