import type { AlertState } from '#streams/alert/facts.ts'

/** What people are told: the same words, and the same bytes, however often. */

/** Subject and text of the mail. */
export function mailOf (state: AlertState, publicUrl: string): { subject: string, text: string } {
  const { what, why, path, raisedAt, endedAt } = state
  const [subject, when] = endedAt === null
    ? [`[Jetpost] ${what}`, `Since ${raisedAt}.`]
    : [`[Jetpost] Over: ${what}`, `It is over. It began ${raisedAt} and ended ${endedAt}.`]
  return { subject, text: [`${what}.`, why, when, `${publicUrl}${path}`].filter(line => line !== '').join('\n\n') }
}

/** The body of the POST. */
export function bodyOf (state: AlertState, publicUrl: string): Buffer {
  const { alert, kind, about, what, why, path, raisedAt, endedAt, notice } = state
  return Buffer.from(JSON.stringify({
    id: notice,
    type: endedAt === null ? 'alert.raised' : 'alert.ended',
    created_at: endedAt ?? raisedAt,
    data: {
      alert_id: alert,
      kind,
      about,
      what,
      why,
      url: `${publicUrl}${path}`,
      raised_at: raisedAt,
      ended_at: endedAt
    }
  }))
}
