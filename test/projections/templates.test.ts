import t from 'tap'
import { templates } from '#projections/templates/project.ts'
import {
  countTemplates,
  declaredNames,
  getTemplate,
  isLayoutInUse,
  listTemplates,
  listVersions,
  parseTemplateCursor,
  parseVersionCursor
} from '#projections/templates/queries.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { subjects } from '#streams/subjects.ts'
import { TemplateDeleted, TemplateVersioned } from '#streams/template/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { ask } from '#src/postgres/query.ts'
import { ACCOUNT, timeAt } from '../support/facts.ts'
import { allRows, apply, clear, cut, freshPool, randomOf, shuffled } from './view.ts'

let made = 0
const cause = (account: string) => ({ account, correlation: 'test', causation: null })

function versioned (
  template: string,
  version: number,
  given: Partial<TemplateVersioned['data']> = {},
  account = ACCOUNT
): Recorded<AnyFact> {
  const data = {
    template,
    version,
    name: `v${version}`,
    subject: null,
    html: `<p>${version}</p>`,
    text: null,
    variables: [],
    layout: null,
    ...given
  }
  return at(account, template, stamp(TemplateVersioned, cause(account), data, Date.parse(timeAt(made))))
}

function deleted (template: string, account = ACCOUNT): Recorded<AnyFact> {
  return at(account, template, stamp(TemplateDeleted, cause(account), { template }, Date.parse(timeAt(made))))
}

function at (account: string, template: string, fact: AnyFact): Recorded<AnyFact> {
  return { fact, seq: ++made, subject: subjects.template(account, template) }
}

const get = (id: string, version: number | null = null, account = ACCOUNT) => getTemplate({ account, id, version })
const page = { account: ACCOUNT, limit: 25, before: null }

t.test('the newest version is the template, and the others are kept', async t => {
  const pool = await freshPool(t)
  const variables = [{ name: 'order', type: 'string' as const, required: true, fallback: null }, {
    name: 'items',
    type: 'list' as const,
    required: false,
    fallback: [{ a: [1, 'x'] }]
  }]
  const first = versioned('tpl_a', 1, { subject: 'one', variables, text: 'a\u0000b "quoted" \\' })
  const second = versioned('tpl_a', 2, { subject: 'two', layout: 'tpl_b' })
  await apply(pool, templates, [first])
  await apply(pool, templates, [second])
  t.match(await ask(pool, get('tpl_a')), {
    id: 'tpl_a',
    version: 2,
    name: 'v2',
    subject: 'two',
    html: '<p>2</p>',
    text: null,
    variables: [],
    layout_id: 'tpl_b',
    created_at: first.fact.time,
    updated_at: second.fact.time
  })
  t.strictSame(await ask(pool, get('tpl_a', 1)), {
    id: 'tpl_a',
    version: 1,
    name: 'v1',
    subject: 'one',
    html: '<p>1</p>',
    text: 'a\uFFFDb "quoted" \\',
    variables,
    layout_id: null,
    created_at: first.fact.time,
    updated_at: first.fact.time
  })
  t.equal(await ask(pool, get('tpl_a', 4)), null)
  t.strictSame(
    await ask(pool, declaredNames({ account: ACCOUNT, ids: ['tpl_a', 'tpl_none'] })),
    new Map([['tpl_a', []]])
  )
  await apply(pool, templates, [versioned('tpl_a', 3, { variables })])
  t.strictSame(
    await ask(pool, declaredNames({ account: ACCOUNT, ids: ['tpl_a'] })),
    new Map([['tpl_a', ['order', 'items']]])
  )
  t.strictSame(await ask(pool, declaredNames({ account: 'acc_other', ids: ['tpl_a'] })), new Map())
  t.equal(await ask(pool, get('tpl_a', null, 'acc_other')), null)
})

t.test('lists are newest first, a page at a time, without bodies', async t => {
  const pool = await freshPool(t)
  await apply(pool, templates, [
    versioned('tpl_a', 1),
    versioned('tpl_b', 1),
    versioned('tpl_c', 1),
    versioned('tpl_c', 2),
    versioned('tpl_d', 1),
    deleted('tpl_d'),
    versioned('tpl_e', 1, {}, 'acc_other')
  ])
  const first = await ask(pool, listTemplates({ ...page, limit: 2 }))
  t.match(first, { data: [{ id: 'tpl_c', version: 2, name: 'v2' }, { id: 'tpl_b', version: 1 }], has_more: true })
  t.strictSame(Object.keys(first.data[0]!).sort(), [
    'created_at',
    'id',
    'layout_id',
    'name',
    'subject',
    'updated_at',
    'version'
  ])
  t.match(await ask(pool, listTemplates({ ...page, before: parseTemplateCursor(first.next_cursor!) })), {
    data: [{ id: 'tpl_a' }],
    has_more: false,
    next_cursor: null
  })
  t.equal(await ask(pool, countTemplates(ACCOUNT)), 3)

  for (let version = 3; version <= 5; version++) await apply(pool, templates, [versioned('tpl_c', version)])
  const versions = await ask(pool, listVersions({ ...page, id: 'tpl_c', limit: 3 }))
  t.strictSame(versions?.data.map(({ version }) => version), [5, 4, 3])
  t.strictSame(Object.keys(versions!.data[0]!).sort(), ['created_at', 'name', 'subject', 'version'])
  t.match(await ask(pool, listVersions({ ...page, id: 'tpl_c', before: parseVersionCursor(versions!.next_cursor!) })), {
    data: [{ version: 2 }, { version: 1 }],
    has_more: false
  })
  t.strictSame(await ask(pool, listVersions({ ...page, id: 'tpl_c', before: 1 })), {
    data: [],
    has_more: false,
    next_cursor: null
  })
  t.equal(await ask(pool, listVersions({ ...page, id: 'tpl_e' })), null)
})

t.test('cursors that are none of ours are told', async t => {
  for (const text of ['', 'x', Buffer.from('em_1').toString('base64url'), Buffer.from("tpl_'").toString('base64url')]) {
    t.equal(parseTemplateCursor(text), null, text)
  }
  for (
    const text of [
      '',
      'x',
      Buffer.from('0').toString('base64url'),
      Buffer.from('-1').toString('base64url'),
      Buffer.from('9999999999').toString('base64url')
    ]
  ) t.equal(parseVersionCursor(text), null, text)
})

t.test('a deleted template is gone, with all its versions', async t => {
  const pool = await freshPool(t)
  await apply(pool, templates, [versioned('tpl_a', 1), versioned('tpl_a', 2), deleted('tpl_a')])
  t.equal(await ask(pool, get('tpl_a')), null)
  t.equal(await ask(pool, get('tpl_a', 1)), null)
  t.equal(await ask(pool, listVersions({ ...page, id: 'tpl_a' })), null)
  t.strictSame((await ask(pool, listTemplates(page))).data, [])
})

t.test('a layout is in use while the newest version of some template names it', async t => {
  const pool = await freshPool(t)
  await apply(pool, templates, [versioned('tpl_l', 1), versioned('tpl_a', 1, { layout: 'tpl_l' })])
  t.equal(await ask(pool, isLayoutInUse('tpl_l')), true)
  t.equal(await ask(pool, isLayoutInUse('tpl_a')), false)
  await apply(pool, templates, [versioned('tpl_a', 2)])
  t.equal(await ask(pool, isLayoutInUse('tpl_l')), false, 'not an earlier one')
  await apply(pool, templates, [versioned('tpl_a', 3, { layout: 'tpl_l' }), deleted('tpl_a')])
  t.equal(await ask(pool, isLayoutInUse('tpl_l')), false, 'nor one that is deleted')
})

t.test('facts in any order, in any batches, and all of them twice give the same rows', async t => {
  const pool = await freshPool(t)
  const facts = [
    versioned('tpl_a', 1),
    versioned('tpl_b', 1),
    versioned('tpl_a', 2, { layout: 'tpl_b' }),
    versioned('tpl_c', 1),
    deleted('tpl_c'),
    versioned('tpl_b', 2),
    versioned('tpl_d', 1, { layout: 'tpl_b' }),
    versioned('tpl_d', 2),
    deleted('tpl_d'),
    versioned('tpl_a', 3, { layout: 'tpl_b' })
  ]
  for (const one of facts) await apply(pool, templates, [one])
  const expected = await allRows(pool, 'templates')
  t.equal(expected.template_versions?.length, 8)
  t.equal(expected.templates?.length, 4)
  for (let seed = 1; seed <= 12; seed++) {
    const random = randomOf(seed)
    await clear(pool, 'templates')
    for (const batch of cut(shuffled([...facts, ...facts], random), 5, random)) await apply(pool, templates, batch)
    t.strictSame(await allRows(pool, 'templates'), expected, `seed ${seed}`)
  }
})
