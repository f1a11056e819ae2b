import { Type, type Static } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import { NOTHING, type Counted, type Counts } from '../counts.ts'

const Count = (description: string) => Type.Integer({ minimum: 0, description })
const Rate = (share: string) =>
  Nullable(Type.Number({ minimum: 0, description: `${share} Null where there are none.` }))

/** Recipients, each counted when it happened. */
const counts = {
  accepted: Count('Asked for: recipients of the emails that were accepted.'),
  suppressed: Count('Not sent, since the address is suppressed.'),
  canceled: Count('Called off before they were sent.'),
  delivered: Count('Accepted by their mail server.'),
  deferred: Count('Put off at least once.'),
  bounced: Count('Rejected for good, at once or by a mail that came back later.'),
  failed: Count('Given up: no server gave a final answer in time.'),
  opened: Count('Opened by a person; the first time counts.'),
  clicked: Count('A link followed by a person; the first time counts.'),
  complained: Count('Marked as spam.'),
  unsubscribed: Count('Unsubscribed.')
} satisfies Record<Counted, unknown>

const rates = {
  delivery_rate: Rate('`delivered` of those that were settled: `delivered` + `bounced` + `failed`.'),
  bounce_rate: Rate('`bounced` of those that were settled: `delivered` + `bounced` + `failed`.'),
  open_rate: Rate(
    '`opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1.'
  ),
  click_rate: Rate('`clicked` of `delivered`.'),
  complaint_rate: Rate('`complained` of `delivered`.'),
  unsubscribe_rate: Rate('`unsubscribed` of `delivered`.')
}
type Rates = Record<keyof typeof rates, number | null>

const Figures = Type.Object({ ...counts, ...rates })
export type Figures = Static<typeof Figures>

const EXAMPLE = figuresOf({
  ...NOTHING,
  accepted: 1204,
  suppressed: 4,
  delivered: 1176,
  deferred: 31,
  bounced: 20,
  failed: 2,
  opened: 412,
  clicked: 96,
  complained: 1,
  unsubscribed: 3
})

/** Counts with their rates, as the API shows them. */
export const StatsRecord = Type.Object({
  interval: Type.String(),
  from: Type.String({ description: 'Where the first bucket begins.' }),
  to: Type.String({ description: 'Where the last bucket ends.' }),
  totals: Figures,
  buckets: Type.Array(
    Type.Object({
      start: Type.String({ description: 'A bucket lasts until the next one starts.' }),
      ...Figures.properties
    }),
    {
      description: 'Oldest first, those without mail as well.'
    }
  ),
  groups: Type.Optional(Type.Array(Type.Object({ name: Type.String(), ...Figures.properties }), {
    description: 'With `group_by`: what each comes to in the whole time, at most the 100 of which most was accepted.'
  }))
}, {
  examples: [{
    interval: 'day',
    from: '2026-11-21T00:00:00.000Z',
    to: '2026-11-22T00:00:00.000Z',
    totals: EXAMPLE,
    buckets: [{ start: '2026-11-21T00:00:00.000Z', ...EXAMPLE }],
    groups: [{ name: 'example.com', ...EXAMPLE }]
  }]
})
export type StatsRecord = Static<typeof StatsRecord>

export function figuresOf (counts: Counts): Counts & Rates {
  const { delivered, bounced, failed, opened, clicked, complained, unsubscribed } = counts
  const settled = delivered + bounced + failed
  return {
    ...counts,
    delivery_rate: rate(delivered, settled),
    bounce_rate: rate(bounced, settled),
    open_rate: rate(opened, delivered),
    click_rate: rate(clicked, delivered),
    complaint_rate: rate(complained, delivered),
    unsubscribe_rate: rate(unsubscribed, delivered)
  }
}

/** To six places: complaints are counted in tenths of a thousandth. */
function rate (part: number, whole: number): number | null {
  return whole === 0 ? null : Math.round(part / whole * 1e6) / 1e6
}
