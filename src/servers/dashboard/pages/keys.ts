import { principalOf } from '#streams/session/decide.ts'
import { keysFrom } from '#src/actions/key.ts'
import type { Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import {
  buttonTo,
  badge,
  counted,
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
import { confirmed } from '../confirm.ts'
import { createSubmitOnce } from '../submit-once.ts'
import { bodyOf, fieldsOf, newKeyForm, type KeyFields } from './key-form.ts'
import { keyPage, secretPage, type KeyFamily } from './key-page.ts'

/** API keys: the list, creating, editing, rotating and revoking one. */
export function keysPages (pages: Pages, context: DashboardContext): void {
  const keys = new KeyPages(context)
  const { post: postConfirmed } = confirmed(pages, context)
  pages.get('/keys', 'keys:read', async visit => pageResult('Keys', await listPage(visit)))
  pages.get('/keys/new', 'keys:write', async visit => keys.newPage(visit))
  postConfirmed('/keys', 'keys:write', async visit => await keys.create(visit))
  pages.get('/keys/:id', 'keys:read', async visit => await keys.show(visit))
  postConfirmed('/keys/:id', 'keys:write', async visit => await keys.update(visit))
  postConfirmed('/keys/:id/rotate', 'keys:write', async visit => await keys.rotate(visit))
  postConfirmed('/keys/:id/revoke', 'keys:write', async visit => await keys.revoke(visit))
}

class KeyPages {
  private readonly context: DashboardContext
  private readonly once = createSubmitOnce()

  constructor (context: DashboardContext) {
    this.context = context
  }

  async show (visit: Visit, faults: Faults = NO_FAULTS, typed: KeyFields | null = null): Promise<PageResult> {
    const key = await visit.api.keys.get(visit.params.id!)
    return pageResult(
      key.name,
      keyPage(visit, key, { ...this.familyOf(visit, key), domains: this.domainsOf(visit), faults, typed }),
      faults
    )
  }

  newPage (visit: Visit, faults: Faults = NO_FAULTS): PageResult {
    const form = newKeyForm(visit, this.once, this.domainsOf(visit), faults, fieldsOf(visit.form))
    return pageResult('Create a key', form, faults)
  }

  async create (visit: Visit): Promise<PageResult> {
    const typed = fieldsOf(visit.form)
    const request = { ...bodyOf(typed), test: typed.test }
    try {
      const key = await this.once.run(visit, async () => await visit.api.keys.create(request))
      return pageResult('Key created', secretPage(key, 'created', this.context.publicUrl))
    } catch (error) {
      return this.newPage(visit, postFaultsIn(error))
    }
  }

  async update (visit: Visit): Promise<PageResult> {
    const id = visit.params.id!
    const typed = fieldsOf(visit.form)
    try {
      await visit.api.keys.update(id, bodyOf(typed, await visit.api.keys.get(id)))
      return { to: `/dashboard/keys/${id}`, notice: 'Key updated.' }
    } catch (error) {
      return await this.show(visit, postFaultsIn(error), typed)
    }
  }

  async rotate (visit: Visit): Promise<PageResult> {
    const [id, overlap] = [visit.params.id!, visit.form.get('overlap_s')]
    try {
      const { hint } = await visit.api.keys.get(id)
      // A form that is sent twice would end the secret in use: only the last secret stays valid beside the new one.
      if (hint !== visit.form.get('hint')) throw new FormRefused(ROTATED)
      const key = await visit.api.keys.rotate(id, overlap === null ? {} : { overlap_s: Number(overlap) })
      return pageResult('Secret rotated', secretPage(key, 'rotated', this.context.publicUrl))
    } catch (error) {
      return await this.show(visit, faultsIn(error))
    }
  }

  async revoke (visit: Visit): Promise<PageResult> {
    const id = visit.params.id!
    const withChildren = visit.form.get('with_children') === 'true'
    try {
      const { name } = await visit.api.keys.get(id)
      const ended = await visit.api.keys.delete(id, withChildren ? { with_children: true } : {})
      // Without a session there is no page to show a notice.
      return id === visit.principal.id
        ? { to: '/dashboard/sign-in' }
        : { to: '/dashboard/keys', notice: revokedNotice(name, ended?.revoked ?? 1) }
    } catch (error) {
      return await this.show(visit, faultsIn(error))
    }
  }

  /** The key or the user that made it, where there is such a one still, and how many working keys come from it. */
  private familyOf ({ account }: Visit, { id, made_by: madeBy }: KeyRecord): KeyFamily {
    const { directory } = this.context.services
    return {
      maker: madeBy === null ? null : principalOf(directory.now, madeBy) ?? null,
      children: keysFrom(directory.now, account.id, id).filter(key => key.id !== id).length
    }
  }

  private domainsOf ({ account: { id } }: Visit): string[] {
    const own = [...this.context.services.directory.now.domains.values()].filter(({ account }) => account === id)
    return own.map(({ name }) => name).sort()
  }
}

function revokedNotice (name: string, count: number): string {
  return count === 1
    ? `Key ${name} revoked.`
    : `Key ${name} and all that comes from it revoked: ${counted(count, 'key')}.`
}

const ROTATED = 'This key got a new secret after you opened its page, and that secret is not shown again. ' +
  'Open the page of the key again to rotate its secret once more.'

function pageResult (title: string, page: Html, faults: Faults = NO_FAULTS): Extract<PageResult, { page: Html }> {
  return { title, section: 'keys', page, status: faults === NO_FAULTS ? 200 : 422 }
}

async function listPage (visit: Visit): Promise<Html> {
  const { data, next_cursor: next } = await visit.api.keys.page(cursorOf(visit))
  const create = buttonTo(visit, '/dashboard/keys/new', 'Create a key', { primary: true })
  const list = data.length === 0
    ? empty('No keys', 'There are no keys on this page.')
    : table<KeyRecord>('Keys of the account', [
      { name: 'Name', cell: key => nameOf(key, visit) },
      { name: 'Scopes', cell: ({ scopes }) => shortList(scopes) },
      { name: 'Domains', cell: ({ domains }) => (domains[0] === '*' ? 'all' : shortList(domains)) },
      { name: 'Last used', kind: 'late', cell: key => lastUseOf(key, visit.nowMs) },
      { name: 'Expires', cell: key => expiryOf(key, visit.nowMs) },
      { name: 'Status', cell: key => stateOf(key, visit.nowMs) }
    ], data)
  return html`${heading('Keys', create)}
<p class="hint">Every API request needs a key. A secret is shown once, when it is created: Jetpost stores only its
hash.</p>
${list}${pager(visit, next)}`
}

function lastUseOf ({ last_used_at: at }: KeyRecord, nowMs: number): Html {
  return at === null ? html`<span class="none">never</span>` : time(at, nowMs)
}

function expiryOf ({ expires_at: at }: KeyRecord, nowMs: number): Html {
  return at === null ? html`<span class="none">never</span>` : time(at, nowMs)
}

function nameOf ({ id, name, hint }: KeyRecord, { principal }: Visit): Html {
  return html`<a href="/dashboard/keys/${id}">${name}</a> ${
    id === principal.id && badge('this session', 'good')
  }<div class="hint"><code>${hint}</code></div>`
}

const NAMES_SHOWN = 3

function shortList (all: string[]): Value {
  const more = all.length - NAMES_SHOWN
  return html`${all.slice(0, NAMES_SHOWN).map((word, i) => html`${i > 0 && ', '}<code>${word}</code>`)}${
    more > 0 && html` <span class="hint">and ${more} more</span>`
  }`
}

function stateOf ({ test, expires_at: expiresAt }: KeyRecord, nowMs: number): Html {
  const isLive = expiresAt === null || Date.parse(expiresAt) > nowMs
  return html`${isLive ? badge('active') : badge('expired')} ${test && badge('test', 'busy')}`
}
