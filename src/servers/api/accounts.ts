import { Type, type Static } from '@sinclair/typebox'
import { accountLimitsOf, type AccountChange } from '#streams/account/decide.ts'
import { NOTE_LENGTH_MAX, RECIPIENTS_PER_DAY_MAX, SuspensionReason } from '#streams/account/facts.ts'
import { NAME_LENGTH_MAX, Nullable } from '#streams/define.ts'
import type { AccountEntry } from '#streams/directory.ts'
import { nameFault } from '#streams/key/decide.ts'
import { byLimitClass, LIMIT_MAX } from '#streams/key/facts.ts'
import { changeAccount, createAccount, resumeAccount, suspendAccount } from '#src/actions/account.ts'
import { createKeyFor } from '#src/actions/key.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from './context.ts'
import { CreateKeyRequest, KEY_FIELDS, keyAnswer, keyAskerOf, keyFaults, newKeyOf, OpenKeyAnswer } from './keys.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from './params.ts'
import { ResourceRoutes } from './resource.ts'

const BODY = { must: MUST_BE_OBJECT, additionalProperties: false }
const MUST_BE_LIMITS = 'be an object of limits, like {"emails:send":5000}'
const MUST_BE_QUOTA = `be a whole number from 1 to ${RECIPIENTS_PER_DAY_MAX}, or null`

/** What an operator may set. */
const settings = {
  limits: Type.Optional(
    Type.Partial(Type.Object(byLimitClass(() => Type.Integer({ minimum: 1, maximum: LIMIT_MAX }))), {
      must: MUST_BE_LIMITS,
      additionalProperties: false,
      description: 'Requests a minute of all its keys together, by class. Ten times those of a key where none is set.'
    })
  ),
  recipients_per_day: Type.Optional(
    Type.Union([Type.Integer({ minimum: 1, maximum: RECIPIENTS_PER_DAY_MAX, must: MUST_BE_QUOTA }), Type.Null()], {
      must: MUST_BE_QUOTA,
      description: 'How many recipients its mail may have on a day (UTC). `null` = any number.'
    })
  )
}
const CreateRequest = Type.Object({
  name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'A name for people.' }),
  ...settings
}, { ...BODY, examples: [{ name: 'Second shop', recipients_per_day: 50_000 }] })
const ChangeRequest = Type.Object(settings, {
  ...BODY,
  examples: [{ limits: { 'emails:send': 5000 } }, { recipients_per_day: null }]
})
const SuspendRequest = Type.Object({
  reason: SuspensionReason,
  note: Type.Optional(
    Type.String({ minLength: 1, maxLength: NOTE_LENGTH_MAX, description: 'For operators: the account is not told it.' })
  )
}, { ...BODY, examples: [{ reason: 'complaints', note: '0.4 % on Monday' }] })

const EXAMPLE = {
  id: 'acc_01m7yse7ke2esfck840wxx2ekh',
  name: 'Second shop',
  limits: byLimitClass(() => 1000),
  recipients_per_day: 50_000,
  suspended: null,
  created_at: '2026-11-21T12:00:00.000Z'
}
const AccountAnswer = Type.Object({
  id: Type.String(),
  name: Type.String(),
  limits: Type.Object(byLimitClass(() => Nullable(Type.Integer())), {
    description: 'Requests a minute of all its keys together. `null` = any number.'
  }),
  recipients_per_day: Nullable(Type.Integer()),
  suspended: Nullable(
    Type.Object({
      reason: SuspensionReason,
      note: Nullable(Type.String()),
      since: Type.String(),
      automatic: Type.Boolean({ description: 'Whether Jetpost suspended it, for its bounces or complaints.' })
    })
  ),
  created_at: Type.String()
}, { examples: [EXAMPLE] })

const CREATE_TEXT = 'An account has its own keys, domains, mail and webhooks. Give it a first key with ' +
  '`POST /api/accounts/{id}/keys`.'
const CHANGE_TEXT = 'What is left out stays, and so do classes of `limits` that are left out.'
const SUSPEND_TEXT =
  'Nothing of it goes out: new mail is refused with the reason, and what was accepted waits. Reads, ' +
  'settings and webhooks go on. The first account cannot be suspended.'
const RESUME_TEXT =
  'What waits goes out within five minutes. Bounces and complaints from before do not suspend it again.'
const KEY_TEXT = 'The secret is `key` in this answer and nowhere else. The account manages its keys with it, if its ' +
  'scopes allow that.'

/** The accounts of the installation, for its operators: who hosts many of them needs no shell. */
export function accountRoutes (app: Api, services: Services): void {
  const { clock } = services.factLog
  const routes = new ResourceRoutes(app, services, {
    kind: 'account',
    tag: 'Accounts',
    scopes: { read: 'operator', write: 'operator' },
    prefix: 'acc',
    schema: AccountAnswer,
    answerOf
  })

  routes.write('POST', '/accounts', ['createAccount', 'Create an account', CREATE_TEXT], {
    schema: { body: CreateRequest, response: { 201: AccountAnswer } },
    errors: [],
    faults: request => textFaults(request, 'name', nameFault),
    act: request => createAccount(services, askerOf(request), { name: request.body.name, ...changeOf(request.body) }),
    location: ({ account }) => `/api/accounts/${account.id}`,
    tell: ({ account }) => answerOf(account)
  })
  routes.list('/accounts', ['listAccounts', 'List accounts'])
  routes.get('/accounts/:id', ['getAccount', 'Get an account'])
  routes.write('PATCH', '/accounts/:id', ['updateAccount', 'Set the limits of an account', CHANGE_TEXT], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: AccountAnswer } },
    errors: [404, 409],
    act: request => changeAccount(services, askerOf(request), request.params.id, changeOf(request.body)),
    tell: ({ account }) => answerOf(account)
  })
  routes.write('POST', '/accounts/:id/suspend', ['suspendAccount', 'Suspend an account', SUSPEND_TEXT], {
    schema: { params: IdParams, body: SuspendRequest, response: { 200: AccountAnswer } },
    errors: [404, 409],
    act (request) {
      const { params: { id }, body: { reason, note = null } } = request
      return suspendAccount(services, askerOf(request), id, { reason, note })
    },
    tell: ({ account }) => answerOf(account)
  })
  routes.write('POST', '/accounts/:id/resume', ['resumeAccount', 'Resume an account', RESUME_TEXT], {
    schema: { params: IdParams, response: { 200: AccountAnswer } },
    errors: [404, 409],
    act: request => resumeAccount(services, askerOf(request), request.params.id),
    tell: ({ account }) => answerOf(account)
  })
  routes.write('POST', '/accounts/:id/keys', ['createAccountKey', 'Create a key of an account', KEY_TEXT], {
    schema: { params: IdParams, body: CreateKeyRequest, response: { 201: OpenKeyAnswer } },
    errors: [404, 409],
    faults: request => keyFaults(request, clock.nowMs()),
    act: request => createKeyFor(services, keyAskerOf(request), request.params.id, newKeyOf(request.body)),
    fieldOf: KEY_FIELDS,
    location: ({ key }) => `/api/keys/${key.id}`,
    tell: ({ key, secret }) => ({ key: secret, ...keyAnswer(key, clock.nowMs(), null) })
  })
}

function changeOf (
  { limits, recipients_per_day: recipientsPerDay }: Static<typeof ChangeRequest>
): AccountChange {
  return {
    ...(limits === undefined ? {} : { limits }),
    ...(recipientsPerDay === undefined ? {} : { recipientsPerDay })
  }
}

function answerOf (account: AccountEntry): Static<typeof AccountAnswer> {
  const { id, name, recipientsPerDay, suspended, createdAt } = account
  return {
    id,
    name,
    limits: accountLimitsOf(account),
    recipients_per_day: recipientsPerDay,
    suspended,
    created_at: createdAt
  }
}
