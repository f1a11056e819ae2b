import { principalOf } from '#streams/session/decide.ts'
import { userGrantFault, operatorRoleFault } from '#streams/user/decide.ts'
import { ROLE_MEANINGS, USER_ROLES, type UserRole } from '#streams/user/roles.ts'
import { keysOfUser } from '#src/actions/key.ts'
import { html, type Html } from '#src/base/html.ts'
import type { User } from '#src/client/client.ts'
import { confirmed } from '../confirm.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import {
  badge,
  buttonTo,
  checkbox,
  copyable,
  counted,
  cursorOf,
  detailList,
  empty,
  exact,
  faultBox,
  faultsIn,
  field,
  form,
  heading,
  NO_FAULTS,
  pager,
  postFaultsIn,
  table,
  time,
  type Faults
} from '../parts.ts'
import { createSubmitOnce, type SubmitOnce } from '../submit-once.ts'
import { PageNotFound, type PageResult, type Pages, type Visit } from '../visit.ts'
import { endOne, openSessions, sessionTable } from './sessions.ts'

const PATH = '/dashboard/people'
const ABOVE = html`<a href="${PATH}">People</a>`

/** The people of the account: the list, inviting, and one person with role, link and removal. */
export function peoplePages (pages: Pages, context: DashboardContext): void {
  const people = new PeoplePages(context)
  const { post: postConfirmed } = confirmed(pages, context)
  pages.get('/people', 'users:read', async visit => pageResult('People', await listPage(visit)))
  pages.get('/people/new', 'users:write', async visit => people.newPage(visit))
  postConfirmed('/people', 'users:write', async visit => await people.invite(visit))
  pages.get('/people/:id', 'users:read', async visit => await people.show(visit))
  postConfirmed('/people/:id', 'users:write', async visit => await people.update(visit))
  postConfirmed('/people/:id/link', 'users:write', async visit => await people.link(visit))
  pages.post('/people/:id/sessions/:session/end', 'users:write', async visit => await people.endSession(visit))
  postConfirmed('/people/:id/remove', 'users:write', async visit => await people.remove(visit))
}

class PeoplePages {
  private readonly context: DashboardContext
  private readonly once = createSubmitOnce()

  constructor (context: DashboardContext) {
    this.context = context
  }

  newPage (visit: Visit, faults: Faults = NO_FAULTS): PageResult {
    return pageResult('Invite a person', invitePage(visit, this.once, faults), faults)
  }

  async invite (visit: Visit): Promise<PageResult> {
    const text = (name: string) => visit.form.get(name)?.trim() ?? ''
    const name = text('name')
    const request = { email: text('email'), role: text('role') as UserRole, ...(name === '' ? {} : { name }) }
    try {
      const { user, link } = await this.once.run(visit, async () => {
        const user = await visit.api.users.create(request)
        return { user, link: await visit.api.users.createLink(user.id) }
      })
      return pageResult('Person invited', linkPage('Person invited', user, link))
    } catch (error) {
      return this.newPage(visit, postFaultsIn(error))
    }
  }

  async show (visit: Visit, faults: Faults = NO_FAULTS): Promise<PageResult> {
    const user = await visit.api.users.get(visit.params.id!)
    const { now } = this.context.services.directory
    const keys = keysOfUser(now, user.id).length
    return pageResult(
      user.name,
      personPage(visit, user, { keys, sessions: this.sessionsCard(visit, user) }, faults),
      faults
    )
  }

  private sessionsCard (visit: Visit, { id, name }: User): Html {
    const principal = principalOf(this.context.services.directory.now, id)
    const sessions = principal === undefined ? [] : openSessions(this.context, principal, visit.nowMs)
    if (principal === undefined || sessions.length === 0) return html``
    const list = sessionTable(visit, `Sessions of ${name}`, sessions, { principal, path: `${PATH}/${id}/sessions` })
    return html`<section class="card"><h2>Sessions</h2>${list}</section>`
  }

  async endSession (visit: Visit): Promise<PageResult> {
    const { id, role } = await visit.api.users.get(visit.params.id!)
    const principal = principalOf(this.context.services.directory.now, id)
    if (principal === undefined || !mayGive(visit, role)) throw new PageNotFound()
    const sessions = openSessions(this.context, principal, visit.nowMs)
    const ended = await endOne(this.context, visit, sessions, visit.params.session!)
    if (ended.id === visit.session.id) return { to: '/dashboard/sign-in' }
    return { to: `${PATH}/${id}`, notice: 'That browser is signed out.' }
  }

  async update (visit: Visit): Promise<PageResult> {
    const { form, params: { id } } = visit
    const change = { name: form.get('name')?.trim() ?? '', role: form.get('role') as UserRole }
    return await this.change(visit, async () => {
      const { name } = await visit.api.users.update(id!, change)
      return { to: `${PATH}/${id}`, notice: `${name} updated.` }
    })
  }

  async link (visit: Visit): Promise<PageResult> {
    const { api, params: { id } } = visit
    return await this.change(visit, async () => {
      const [user, link] = [await api.users.get(id!), await api.users.createLink(id!)]
      return pageResult('Sign-in link', linkPage('Sign-in link', user, link))
    })
  }

  async remove (visit: Visit): Promise<PageResult> {
    const { api, form, params: { id } } = visit
    const withKeys = form.get('with_keys') === 'true'
    return await this.change(visit, async () => {
      const { name } = await api.users.get(id!)
      const removed = await api.users.delete(id!, withKeys ? { with_keys: true } : {})
      // Without a session there is no page to show a notice.
      if (id === visit.principal.id) return { to: '/dashboard/sign-in' }
      const keys = withKeys ? ` ${counted(removed?.revoked ?? 0, 'key')} revoked.` : ''
      return { to: PATH, notice: `${name} removed.${keys}` }
    })
  }

  private async change (visit: Visit, change: () => Promise<PageResult>): Promise<PageResult> {
    try {
      return await change()
    } catch (error) {
      return await this.show(visit, faultsIn(error))
    }
  }
}

function pageResult (title: string, page: Html, faults: Faults = NO_FAULTS): Extract<PageResult, { page: Html }> {
  return { title, section: 'people', page, status: faults === NO_FAULTS ? 200 : 422 }
}

async function listPage (visit: Visit): Promise<Html> {
  const { data, next_cursor: next } = await visit.api.users.page(cursorOf(visit))
  const invite = buttonTo(visit, `${PATH}/new`, 'Invite a person', { primary: true })
  const list = data.length === 0
    ? empty('No people yet', 'Who is invited signs in as a person, with a role, and not with a key.')
    : table<User>('People of the account', [
      { name: 'Name', kind: 'wide', cell: user => nameCell(user, visit) },
      { name: 'Role', cell: ({ role }) => role },
      { name: 'Signs in by', cell: waysOf },
      { name: 'Last seen', cell: ({ last_seen_at: at }) => seen(at, visit.nowMs) }
    ], data)
  return html`${heading('People', invite)}
<p class="hint">Who may sign in to this dashboard, and what they may do.</p>
${list}${pager(visit, next)}`
}

function nameCell ({ id, name, email }: User, { principal }: Visit): Html {
  return html`<a href="${PATH}/${id}">${name}</a> ${
    id === principal.id && badge('you', 'good')
  }<div class="hint">${email}</div>`
}

function waysOf ({ issuer, passkeys }: User): Html {
  const ways = [
    ...(issuer === null ? [] : [new URL(issuer).host]),
    ...(passkeys === 0 ? [] : [counted(passkeys, 'passkey')])
  ]
  return ways.length === 0 ? html`<span class="none">links alone</span>` : html`${ways.join(', ')}`
}

function seen (at: string | null, nowMs: number): Html {
  return at === null ? html`<span class="none">never</span>` : time(at, nowMs)
}

/** Whether the visitor may give this role, or a way in with it. */
function mayGive ({ principal, account, nowMs }: Visit, role: UserRole): boolean {
  return operatorRoleFault(role, account.id) === null &&
    userGrantFault(principal, [{ account: account.id, role }], nowMs) === null
}

/** The roles that the visitor may give. */
function roleChoice (visit: Visit, chosen: string): Html {
  const choices = USER_ROLES.filter(role => mayGive(visit, role)).map(role =>
    html`<label class="check"><input type="radio" name="role" value="${role}" required${
      role === chosen && html` checked`
    }>
<span>${role}<br><span class="hint">${ROLE_MEANINGS[role]}</span></span></label>`
  )
  return html`<fieldset><legend>Role</legend><div class="checks">${choices}</div></fieldset>`
}

function invitePage (visit: Visit, once: SubmitOnce, faults: Faults): Html {
  const typed = (name: string) => visit.form.get(name) ?? ''
  const email = field({
    name: 'email',
    label: 'Email address',
    type: 'email',
    value: typed('email'),
    required: true,
    hint: 'The address that the person signs in with. It cannot be changed later.'
  }, faults)
  const name = field({ name: 'name', label: 'Name', value: typed('name'), hint: 'Empty = the address.' }, faults)
  const fields = html`${once.field()}${email}${name}${roleChoice(visit, typed('role') || 'viewer')}
<div><button class="primary">Invite</button></div>`
  return html`${heading('Invite a person', null, ABOVE)}${faultBox(faults)}
${form(visit, { action: PATH, class: 'card fields' }, fields)}`
}

/** The only page that shows a link. */
function linkPage (
  title: string,
  { id, name }: User,
  { url, expires_at: expiresAt }: { url: string, expires_at: string }
): Html {
  return html`${heading(title, null, ABOVE)}
<div class="box secret"><p><strong>Pass this link to ${name} now. It is not shown again.</strong> It signs in as
${name}, once, until ${exact(expiresAt)}. Send it where only they can read it.</p>
${copyable(url, 'Copy the link')}</div>
<p><a class="button" href="${PATH}/${id}">${name}</a> <a class="button" href="${PATH}">All people</a></p>`
}

/** What there is of a person beside the entry: how many working keys come from them, and their sessions. */
interface Belongings {
  keys: number
  sessions: Html
}

/** One person with the forms. */
function personPage (visit: Visit, user: User, { keys, sessions }: Belongings, faults: Faults): Html {
  const isSelf = user.id === visit.principal.id
  const title = html`${user.name} ${isSelf && badge('you', 'good')}`
  const details = detailList([
    ['Email address', user.email],
    ['Role', html`${user.role}<br><span class="hint">${ROLE_MEANINGS[user.role]}</span>`],
    ['Signs in by', waysOf(user)],
    ['Last seen', seen(user.last_seen_at, visit.nowMs)],
    ['Added', time(user.created_at, visit.nowMs)]
  ])
  const forms = mayGive(visit, user.role)
    ? html`${editForm(visit, user, faults)}${linkCard(visit, user)}${sessions}${removeCard(visit, user, keys, isSelf)}`
    : html`<p class="box calm">You may not change this person, who may do more than you.</p>`
  return html`${heading(title, null, ABOVE)}${faultBox(faults)}
<section class="card"><h2>Details</h2>${details}<p>${copyable(user.id, 'Copy the id')}</p>
<p>${buttonTo(visit, `/dashboard/audit?actor=${user.id}`, 'What they did')}</p></section>
${visit.may('POST', `${PATH}/${user.id}`) && forms}`
}

function editForm (visit: Visit, user: User, faults: Faults): Html {
  const name = field(
    { name: 'name', label: 'Name', value: visit.form.get('name') ?? user.name, required: true },
    faults
  )
  return form(
    visit,
    { action: `${PATH}/${user.id}`, class: 'card fields' },
    html`<h2>Edit</h2>${name}${roleChoice(visit, visit.form.get('role') ?? user.role)}
<div><button class="primary">Save</button></div>`
  )
}

function linkCard (visit: Visit, { id, name }: User): Html {
  return html`<section class="card"><h2>Sign-in link</h2>
<p>A link signs in as ${name}, once, within a day: for a first sign-in, or where everything else is lost.</p>
${form(visit, { action: `${PATH}/${id}/link`, class: 'fields' }, html`<div><button>Create a link</button></div>`)}
</section>`
}

function removeCard (visit: Visit, { id, name }: User, keys: number, isSelf: boolean): Html {
  const options = {
    action: `${PATH}/${id}/remove`,
    class: 'fields',
    confirm: `${name} is signed out everywhere${isSelf ? ': that is you' : ''}. Passkeys and links are gone for good.`,
    confirmLabel: 'Remove'
  }
  const withKeys = keys > 0 &&
    checkbox('with_keys', 'true', `Also revoke ${counted(keys, 'key')} that come from them`, false)
  return html`<section class="card"><h2>Remove</h2><p>The sessions end within a second. Keys that ${name} has made keep
working, unless they are revoked as well.</p>
${form(visit, options, html`${withKeys}<div><button class="danger">Remove</button></div>`)}</section>`
}
