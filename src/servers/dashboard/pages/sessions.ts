import { Refusal } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import { endMs, isOver } from '#streams/session/decide.ts'
import type { SessionEntry } from '#streams/session/state.ts'
import { PASSKEY_NAME_LENGTH_MAX } from '#streams/user/facts.ts'
import { ROLE_MEANINGS } from '#streams/user/roles.ts'
import type { Passkey, UserEntry } from '#streams/user/state.ts'
import { html, type Html } from '#src/base/html.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, sessionsOf } from '#src/actions/session.ts'
import { removePasskey } from '#src/actions/user.ts'
import { addPasskey } from '#src/actions/user-session.ts'
import { confirmed } from '../confirm.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { passkeyForm } from '../passkey-form.ts'
import { actionButton, badge, detailList, field, heading, hiddenField, table, time, type Column } from '../parts.ts'
import { PageNotFound, resultOrThrow, type PageResult, type Pages, type Visit } from '../visit.ts'

/** The sessions of the visitor's key or user: signing out one by one, and everywhere; a user's passkeys. */
export function sessionsPages (pages: Pages, context: DashboardContext): void {
  const own = ({ principal, nowMs }: Visit) => openSessions(context, principal, nowMs)
  pages.get('/sessions', null, async visit => page(visit, context, own(visit)))

  pages.post('/sessions/end', null, async visit => {
    await endNow(context, visit, own(visit))
    return { to: SIGN_IN }
  })

  pages.post('/sessions/:id/end', null, async visit => {
    const session = await endOne(context, visit, own(visit), visit.params.id!)
    return session.id === visit.session.id ? { to: SIGN_IN } : { to: PATH, notice: 'That browser is signed out.' }
  })

  passkeyPages(pages, context)
}

/** Of a key or a user, the latest first. */
export function openSessions ({ services }: DashboardContext, principal: Principal, nowMs: number): SessionEntry[] {
  return sessionsOf(services, principal.id)
    .filter(session => !isOver(session, principal, nowMs))
    .toSorted((a, b) => b.createdAt.localeCompare(a.createdAt))
}

async function endNow ({ services }: DashboardContext, { asker }: Visit, sessions: SessionEntry[]): Promise<void> {
  await services.directory.reached(await endSessions(services, asker, sessions), SEEN_MS)
}

/** Ends the one with this id; resolves to it. */
export async function endOne (
  context: DashboardContext,
  visit: Visit,
  sessions: SessionEntry[],
  id: string
): Promise<SessionEntry> {
  const session = sessions.find(session => session.id === id)
  if (session === undefined) throw new PageNotFound('This session does not exist, or has ended.')
  await endNow(context, visit, [session])
  return session
}

const PATH = '/dashboard/sessions'
const SIGN_IN = '/dashboard/sign-in'

/** Adding a passkey and removing one: both are asked for again who sits there. */
function passkeyPages (pages: Pages, context: DashboardContext): void {
  const { services, ways: { passkeys } } = context
  const { post } = confirmed(pages, context)

  post('/passkeys', null, async visit => {
    const user = userOf(visit, context)
    if (passkeys === null || user === null) throw new PageNotFound()
    const text = (name: string) => visit.form.get(name) ?? ''
    const name = text('name').trim() || visit.session.browser || 'Passkey'
    const made = await passkeys.finishAdd(text('ceremony'), text('credential'), visit.session.id, name)
    const added = made instanceof Refusal ? made : await addPasskey(services, visit.asker, user.id, made)
    await services.directory.reached(resultOrThrow(added).seq, SEEN_MS)
    return { to: PATH, notice: `Passkey ${name} added.` }
  })

  post('/passkeys/:id/remove', null, async visit => {
    const { seq } = resultOrThrow(await removePasskey(services, visit.asker, visit.principal.id, visit.params.id!))
    await services.directory.reached(seq, SEEN_MS)
    return { to: PATH, notice: 'Passkey removed.' }
  })
}

function userOf ({ principal }: Visit, { services }: DashboardContext): UserEntry | null {
  return services.directory.now.users.get(principal.id) ?? null
}

function page (visit: Visit, context: DashboardContext, sessions: SessionEntry[]): PageResult {
  const user = userOf(visit, context)
  const everywhere = actionButton(visit, 'Sign out everywhere', {
    action: `${PATH}/end`,
    confirm: `Every browser signed in ${user === null ? 'with this key' : 'as you'} is signed out, including this one.`,
    confirmLabel: 'Sign out everywhere',
    danger: true
  })
  if (user === null) {
    return {
      title: 'Sessions',
      section: null,
      page: html`${heading('Sessions', everywhere)}
<p class="hint">You are signed in with the key <strong>${visit.principal.name}</strong>. A session ends after 14 days,
after about a day without use, and when its key or the secret it was opened with ends.</p>
${sessionTable(visit, 'Sessions of this key', sessions)}`
    }
  }
  return {
    title: 'Your sign-in',
    section: null,
    assets: ['passkey.js'],
    page: html`${heading('Your sign-in', everywhere)}${aboutCard(user)}
${context.ways.passkeys !== null && passkeysCard(visit, user)}
<section class="card"><h2>Sessions</h2>
<p class="hint">A session ends after 14 days, and after about a day without use.</p>
${sessionTable(visit, 'Your sessions', sessions)}</section>`
  }
}

function aboutCard ({ name, address, role, identity }: UserEntry): Html {
  return html`<section class="card"><h2>You</h2>${
    detailList([
      ['Name', name],
      ['Email address', address],
      ['Role', html`${role}<br><span class="hint">${ROLE_MEANINGS[role]}</span>`],
      identity === null ? null : ['Signs in with', new URL(identity.issuer).host]
    ])
  }</section>`
}

function passkeysCard (visit: Visit, { passkeys }: UserEntry): Html {
  const list = passkeys.length === 0
    ? html`<p class="hint">No passkeys yet.</p>`
    : table<Passkey>('Your passkeys', [
      { name: 'Name', kind: 'wide', cell: ({ name }) => name },
      { name: 'Added', cell: ({ createdAt }) => time(createdAt, visit.nowMs) },
      { name: 'Action', cell: ({ id, name }) => removeButton(visit, id, name) }
    ], passkeys)
  const name = field({
    name: 'name',
    label: 'Name of a new passkey',
    hint: `What you know the device by, at most ${PASSKEY_NAME_LENGTH_MAX} characters.`
  })
  const add = passkeyForm(
    { action: '/dashboard/passkeys', options: '/dashboard/passkey/add' },
    html`${hiddenField('csrf', visit.csrf)}${name}`,
    'Add a passkey'
  )
  return html`<section class="card"><h2>Passkeys</h2>
<p class="hint">A passkey of your device signs you in without a link or a key, and confirms that it is you.</p>
${list}${add}</section>`
}

function removeButton (visit: Visit, id: string, name: string): Html {
  return actionButton(visit, 'Remove', {
    action: `/dashboard/passkeys/${id}/remove`,
    confirm: `The passkey ${name} will not sign you in any more.`,
    confirmLabel: 'Remove passkey',
    danger: true
  })
}

/** Those of the visitor, or of another `principal`; `path` = where each is ended. */
export function sessionTable (
  visit: Visit,
  title: string,
  sessions: SessionEntry[],
  { principal, path }: { principal: Principal, path: string } = { principal: visit.principal, path: PATH }
): Html {
  const columns: Array<Column<SessionEntry>> = [
    {
      name: 'Browser',
      kind: 'wide',
      cell: ({ id, browser }) =>
        html`${browser ?? 'Unknown'} ${id === visit.session.id && badge('this browser', 'good')}<br>
<code>${id}</code>`
    },
    { name: 'Address', cell: ({ ip }) => ip ?? 'unknown' },
    { name: 'Signed in', cell: ({ createdAt }) => time(createdAt, visit.nowMs) },
    { name: 'Ends', cell: session => time(new Date(endMs(session, principal)), visit.nowMs) },
    { name: 'Action', cell: ({ id }) => actionButton(visit, 'Sign out', { action: `${path}/${id}/end` }) }
  ]
  return table(title, columns, sessions)
}
