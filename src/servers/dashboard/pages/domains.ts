import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { mustBeVerified } from '#src/actions/email.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import { JetpostError } from '#src/client/client.ts'
import type { Domain } from '#src/client/types.ts'
import {
  cursorOf,
  empty,
  fault,
  faultBox,
  field,
  form,
  heading,
  NO_FAULTS,
  pager,
  table,
  time,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { defaultsIn, domainPage, statusBadge, type DomainPageOptions } from './domain-page.ts'
import { problemsOf } from './domain-records.ts'

/** The account's domains: the list, and what a domain's page can do. */
export function domainsPages (pages: Pages, { services }: DashboardContext): void {
  const { directory } = services
  const show = (visit: Visit, domain: Domain, more: Partial<DomainPageOptions> = {}) =>
    domainPage(visit, domain, {
      directory: directory.now,
      isVerifiedRequired: mustBeVerified(services, visit.account.id),
      ...more
    })

  pages.get('/domains', 'domains:read', async visit => await listPage(visit))

  pages.post('/domains', 'domains:write', async visit => {
    const name = visit.form.get('name')?.trim() ?? ''
    try {
      const { id } = await visit.api.domains.create({ name })
      return { to: `/dashboard/domains/${id}`, notice: 'Domain added. Publish its DNS records next.' }
    } catch (error) {
      return refusedPage(visit, name, postFaultsIn(error))
    }
  })

  pages.get('/domains/:id', 'domains:read', async visit => show(visit, await visit.api.domains.get(visit.params.id!)))

  pages.post('/domains/:id/verify', 'domains:write', async visit => {
    const id = visit.params.id!
    try {
      const isCorrect = problemsOf(await visit.api.domains.verify(id)) === null
      return isCorrect
        ? { to: `/dashboard/domains/${id}`, notice: 'All required DNS records are correct.' }
        : { to: `/dashboard/domains/${id}?checked=1` }
    } catch (error) {
      if (!(error instanceof JetpostError) || error.code !== 'dns_unavailable') throw error
      return show(visit, await visit.api.domains.get(id), { faults: fault(NO_DNS), status: 503 })
    }
  })

  pages.post('/domains/:id/rotate', 'domains:write', async visit => {
    const { id } = await visit.api.domains.rotateDkim(visit.params.id!)
    return { to: `/dashboard/domains/${id}`, notice: 'New DKIM keys created. Publish the records marked as new.' }
  })

  pages.post('/domains/:id/defaults', 'domains:write', async visit => {
    const { id } = await visit.api.domains.update(visit.params.id!, defaultsIn(visit.form))
    return { to: `/dashboard/domains/${id}`, notice: 'Saved.' }
  })

  pages.post('/domains/:id/delete', 'domains:write', async visit => {
    await visit.api.domains.delete(visit.params.id!)
    return { to: '/dashboard/domains', notice: 'Domain deleted.' }
  })
}

const NO_DNS = 'DNS does not answer. Nothing was changed. Try again in a moment.'

async function listPage (visit: Visit): Promise<PageResult> {
  const { data, next_cursor: next } = await visit.api.domains.page({ limit: 25, ...cursorOf(visit) })
  const add = addForm(visit, '', NO_FAULTS)
  const page = html`${heading('Domains')}
${
    data.length === 0 ? nothingYet(add) : html`<section class="card" aria-label="Add a domain">${add}</section>
${
      table<Domain>('Domains, newest first', [
        {
          name: 'Domain',
          kind: 'wide',
          cell: domain => html`<a href="/dashboard/domains/${domain.id}">${domain.name}</a>`
        },
        { name: 'Status', cell: statusBadge },
        { name: 'Problems', cell: (domain): Value => problemsOf(domain) ?? html`<span class="none">–</span>` },
        { name: 'Added', kind: 'late', cell: ({ created_at: at }) => time(at, visit.nowMs) }
      ], data)
    }${pager(visit, next)}`
  }`
  return { title: 'Domains', section: 'domains', page }
}

/** Without the list, which may be unavailable. */
function refusedPage (visit: Visit, name: string, faults: Faults): PageResult {
  const page = html`${heading('Add a domain', null, html`<a href="/dashboard/domains">Domains</a>`)}${
    faults.of('name') === null && faultBox(faults)
  }
<section class="card" aria-label="Add a domain">${addForm(visit, name, faults)}</section>`
  return { title: 'Add a domain', section: 'domains', page, status: 422 }
}

function addForm (visit: Visit, name: string, faults: Faults): Html {
  const input = field({
    name: 'name',
    label: 'Domain to send from',
    value: name,
    required: true,
    placeholder: 'example.com'
  }, faults)
  return form(
    visit,
    { action: '/dashboard/domains', class: 'filters' },
    html`${input}
<button class="primary">Add</button>`
  )
}

function nothingYet (add: Html): Html {
  return empty(
    'No domains yet',
    html`Add the domain you send from and publish a few DNS records. Jetpost then signs your emails, so that receivers
can trust them. To try things out, send from any address of <code>${SANDBOX_DOMAIN}</code>.`,
    add
  )
}
