import { mayDo } from '#streams/key/decide.ts'
import type { Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import {
  badge,
  cursorOf,
  empty,
  faultsIn,
  heading,
  NO_FAULTS,
  pager,
  table,
  time,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { FormRefused, type PageResult, type Pages, type Visit } from '../visit.ts'
import { createSubmitOnce } from '../submit-once.ts'
import { bodyOf, fieldsOf, newKeyForm, type KeyFields } from './key-form.ts'
import { keyPage, READ_ONLY, secretPage } from './key-page.ts'

/** Who may use the API, and for what. */
export function keysPages (pages: Pages, context: DashboardContext): void {
  const { publicUrl, services } = context
  const once = createSubmitOnce()
  const domainsOf = ({ account: { id } }: Visit) =>
    [...services.directory.now.domains.values()].filter(({ account }) => account === id).map(({ name }) => name).sort()
  const show = async (
    visit: Visit,
    faults: Faults = NO_FAULTS,
    typed: KeyFields | null = null
  ): Promise<PageResult> => {
    const key = await visit.api.keys.get(visit.params.id!)
    return answer(key.name, keyPage(visit, key, domainsOf(visit), faults, typed), faults)
  }

  const sees = ({ key }: Visit) => mayDo(key, 'keys:read')
  const changes = ({ key }: Visit) => mayDo(key, 'keys:write')

  pages.get('/keys', async visit => sees(visit) ? answer('Keys', await listPage(visit)) : refused(visit))

  pages.get(
    '/keys/new',
    async visit =>
      changes(visit)
        ? answer('Make a key', newKeyForm(visit, once, domainsOf(visit), NO_FAULTS, fieldsOf(visit.form)))
        : refused(visit)
  )

  pages.post('/keys', async visit => {
    if (!changes(visit)) return refused(visit)
    const typed = fieldsOf(visit.form)
    try {
      const made = await once.run(
        visit,
        async () => await visit.api.keys.create({ ...bodyOf(typed), test: typed.test })
      )
      return answer('The new key', secretPage(made, 'made', publicUrl))
    } catch (error) {
      const faults = postFaultsIn(error)
      return answer('Make a key', newKeyForm(visit, once, domainsOf(visit), faults, typed), faults)
    }
  })

  pages.get('/keys/:id', async visit => sees(visit) ? await show(visit) : refused(visit))

  pages.post('/keys/:id', async visit => {
    const { id } = visit.params
    const typed = fieldsOf(visit.form)
    try {
      await visit.api.keys.update(id!, bodyOf(typed, await visit.api.keys.get(id!)))
      return { to: `/dashboard/keys/${id}`, notice: 'Changed. It holds from the next request on.' }
    } catch (error) {
      return await show(visit, postFaultsIn(error), typed)
    }
  })

  pages.post('/keys/:id/rotate', async visit => {
    const [id, overlap] = [visit.params.id!, visit.form.get('overlap_s')]
    try {
      const { hint } = await visit.api.keys.get(id)
      // A form that was sent again would end the secret in use: only the last one works on beside the new one.
      if (hint !== visit.form.get('hint')) throw new FormRefused(ROTATED)
      const rotated = await visit.api.keys.rotate(id, overlap === null ? {} : { overlap_s: Number(overlap) })
      return answer('The new secret', secretPage(rotated, 'rotated', publicUrl))
    } catch (error) {
      return await show(visit, faultsIn(error))
    }
  })

  pages.post('/keys/:id/revoke', async visit => {
    const id = visit.params.id!
    try {
      const { name } = await visit.api.keys.get(id)
      await visit.api.keys.delete(id)
      // Nobody is there any more to read a notice.
      return id === visit.key.id
        ? { to: '/dashboard/sign-in' }
        : { to: '/dashboard/keys', notice: `The key ${name} is revoked.` }
    } catch (error) {
      return await show(visit, faultsIn(error))
    }
  })
}

const ROTATED =
  'This key has got a new secret since its page was opened, and no secret is shown again. To make another one, open the page of the key anew.'

function refused (visit: Visit): PageResult {
  return { ...answer('Keys', unseen(visit)), status: 403 }
}

function answer (title: string, page: Html, faults: Faults = NO_FAULTS): Extract<PageResult, { page: Html }> {
  return { title, section: 'keys', page, status: faults === NO_FAULTS ? 200 : 422 }
}

/** For a session whose key has no sight of keys, or no hand on them: what to do about it. */
function unseen ({ key }: Visit): Html {
  if (mayDo(key, 'keys:read')) return html`${heading('Keys')}${READ_ONLY}`
  return html`${heading('Keys')}${
    empty(
      'This session may not see keys',
      html`You signed in with <strong>${key.name}</strong>, which opens the dashboard and does not hold <code>keys:read</code>.`,
      html`<p>Sign in with a key of scope <code>full</code>, or with one that holds <code>keys:read</code> and <code>keys:write</code> beside <code>dashboard</code>.
On the machine that runs Jetpost, <code>jetpost keys list</code> shows them all.</p>`
    )
  }`
}

async function listPage (visit: Visit): Promise<Html> {
  const { data, next_cursor: next } = await visit.api.keys.page(cursorOf(visit))
  const make = mayDo(visit.key, 'keys:write') &&
    html`<a class="button primary" href="/dashboard/keys/new">Make a key</a>`
  return html`${heading('Keys', make || null)}
<p class="hint">Each request to the API carries one. Secrets are shown once, when they are made: Jetpost keeps their fingerprints alone.</p>
${
    data.length === 0 ?
      empty('No keys here', 'There are none on this page.') :
      table<KeyRecord>('Keys of the account', [
        { name: 'Name', cell: key => nameOf(key, visit) },
        { name: 'May', cell: ({ scopes }) => words(scopes) },
        { name: 'From', cell: ({ domains }) => (domains[0] === '*' ? 'every domain' : words(domains)) },
        {
          name: 'Expires',
          cell: key => (key.expires_at === null
            ? html`<span class="none">never</span>`
            : time(key.expires_at, visit.nowMs))
        },
        { name: 'State', cell: key => stateOf(key, visit.nowMs) }
      ], data)
  }${pager(visit, next)}`
}

function nameOf ({ id, name, hint }: KeyRecord, { key }: Visit): Html {
  return html`<a href="/dashboard/keys/${id}">${name}</a> ${
    id === key.id && badge('this session', 'good')
  }<div class="hint"><code>${hint}</code></div>`
}

const WORDS_MAX = 3

function words (all: string[]): Value {
  const more = all.length - WORDS_MAX
  return html`${all.slice(0, WORDS_MAX).map((word, i) => html`${i > 0 && ', '}<code>${word}</code>`)}${
    more > 0 && html` <span class="hint">and ${more} more</span>`
  }`
}

function stateOf ({ test, expires_at: expiresAt }: KeyRecord, nowMs: number): Html {
  const isLive = expiresAt === null || Date.parse(expiresAt) > nowMs
  return html`${isLive ? badge('live') : badge('expired')} ${test && badge('test', 'busy')}`
}
