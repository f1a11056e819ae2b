// Made from the OpenAPI document by `npm run client`. Do not edit.

import type {
  Account, CancelEmailAnswer, CountReplayAnswer, CreateAccountRequest, CreateDomainRequest, CreateErasureRequest,
  CreateFeedbackSourceAnswer, CreateFeedbackSourceRequest, CreateKeyAnswer, CreateKeyRequest, CreateReplayRequest,
  CreateRouteRequest, CreateSuppressionRequest, CreateTemplateAnswer, CreateTemplateRequest, CreateUserLinkAnswer,
  CreateUserRequest, CreateWebhookAnswer, CreateWebhookRequest, DeleteKeyAnswer, DeleteUserAnswer, Delivery, Domain,
  Email, EmailContent, Erasure, FeedbackSource, ImportSuppressionsAnswer, Key, ListAccountsAnswer, ListAuditAnswer,
  ListDeliveriesAnswer, ListDomainsAnswer, ListEmailsAnswer, ListErasuresAnswer, ListEventsAnswer,
  ListFeedbackSourcesAnswer, ListKeysAnswer, ListReplaysAnswer, ListRoutesAnswer, ListSuppressionsAnswer,
  ListTemplateVersionsAnswer, ListTemplatesAnswer, ListUsersAnswer, ListWebhooksAnswer, Me, PreviewTemplateAnswer,
  PreviewTemplateRequest, Replay, ReplayDeliveryAnswer, RescheduleEmailAnswer, RescheduleEmailRequest, RetryEmailAnswer,
  RotateKeyRequest, RotateWebhookSecretAnswer, RotateWebhookSecretRequest, Route, SendBatchAnswer, SendBatchRequest,
  SendEmailAnswer, SendEmailRequest, Stats, Suppression, SuspendAccountRequest, Template, TestWebhookAnswer,
  TestWebhookRequest, UpdateAccountRequest, UpdateDomainRequest, UpdateFeedbackSourceRequest, UpdateKeyRequest,
  UpdateRouteRequest, UpdateTemplateRequest, UpdateUserRequest, UpdateWebhookRequest, User, Webhook, ListEmailsQuery,
  GetEmailQuery, GetEmailRawQuery, PageQuery, GetTemplateQuery, DeleteKeyQuery, DeleteUserQuery, ListDeliveriesQuery,
  ListWebhookDeliveriesQuery, ListSuppressionsQuery, ExportSuppressionsQuery, ListAuditQuery, ExportAuditQuery,
  GetStatsQuery, ListEventsQuery, ImportSuppressionsQuery
} from './types.ts'

/** What each operation takes and answers, by its operationId. */
export interface Operations {
  /** Send an email. Answers once the email is durably accepted. Each recipient gets a message of its own, and has a
   *  status of its own. Scope: `emails:send`. */
  sendEmail: { takes: [body: SendEmailRequest], answer: SendEmailAnswer }
  /** List emails. The emails of the account, newest first, without their bodies. All filters given must hold, of
   *  several values of one filter at least one; `q` looks for text in subject, sender and recipients. Scope:
   *  `emails:list`. */
  listEmails: { takes: [query?: ListEmailsQuery], answer: ListEmailsAnswer }
  /** Send up to 100 emails. One durable append: in strict mode all are accepted or none, in permissive mode all that
   *  have no fault. Scope: `emails:send`. */
  sendBatch: { takes: [body: SendBatchRequest], answer: SendBatchAnswer }
  /** Get an email. The email, the status of each recipient, and a timeline of all that happened, with the replies of
   *  mail servers. Scope: `emails:metadata`. */
  getEmail: { takes: [id: string, query?: GetEmailQuery], answer: Email }
  /** Move a scheduled email to another time. Lists the recipients that were moved and those that had gone. 409 when
   *  all had gone. Scope: `emails:send`. */
  rescheduleEmail: { takes: [id: string, body: RescheduleEmailRequest], answer: RescheduleEmailAnswer }
  /** Cancel an email. Lists the recipients that were canceled, and those for whom it was too late. 409 when it was
   *  too late for all. Scope: `emails:send`. */
  cancelEmail: { takes: [id: string], answer: CancelEmailAnswer }
  /** Send an email again to those who did not get it. Only to recipients that bounced, failed, were suppressed or
   *  are held in doubt. 409 when there are none, or when the content is gone. Scope: `emails:send`. */
  retryEmail: { takes: [id: string], answer: RetryEmailAnswer }
  /** Get the bodies of an email and its list of attachments. Scope: `emails:read`. */
  getEmailContent: { takes: [id: string], answer: EmailContent }
  /** Get the message of a recipient. The RFC 5322 message. Keep it as safe as the mail itself: its links can
   *  unsubscribe the recipient. Scope: `emails:read`. */
  getEmailRaw: { takes: [id: string, query?: GetEmailRawQuery], answer: Uint8Array }
  /** Create a template. Mustache (github.com/mustache/spec 1.4, the core modules) in subject, html and text;
   *  {{name}} is escaped in html. `warnings` names variables that are used and not declared, or declared and not
   *  used. An account has at most 10,000 templates. Scope: `templates:write`. A live key must ask this. */
  createTemplate: { takes: [body: CreateTemplateRequest], answer: CreateTemplateAnswer }
  /** List templates. Scope: `templates:read`. */
  listTemplates: { takes: [query?: PageQuery], answer: ListTemplatesAnswer }
  /** Make the next version of a template. Versions never change. There is no new one when nothing differs from the
   *  one before. Scope: `templates:write`. A live key must ask this. */
  updateTemplate: { takes: [id: string, body: UpdateTemplateRequest], answer: CreateTemplateAnswer }
  /** Delete a template. Mail that names it is refused from then on. A template that others use as their layout
   *  stays: 409 `template_in_use`. Scope: `templates:write`. A live key must ask this. */
  deleteTemplate: { takes: [id: string], answer: undefined }
  /** Get a template, or one of its versions. Scope: `templates:read`. */
  getTemplate: { takes: [id: string, query?: GetTemplateQuery], answer: Template }
  /** List the versions of a template. Scope: `templates:read`. */
  listTemplateVersions: { takes: [id: string, query?: PageQuery], answer: ListTemplateVersionsAnswer }
  /** Render a template, sending nothing. Renders it in its layout. Variables that are not given are listed as
   *  missing and left empty. Those that the template does not have are listed as unknown. Scope: `templates:read`. */
  previewTemplate: { takes: [id: string, body?: PreviewTemplateRequest], answer: PreviewTemplateAnswer }
  /** Add a domain. Answers 200 when the account has the domain already. Scope: `domains:write`. A live key must ask
   *  this. */
  createDomain: { takes: [body: CreateDomainRequest], answer: Domain }
  /** List domains. Scope: `domains:read`. */
  listDomains: { takes: [query?: PageQuery], answer: ListDomainsAnswer }
  /** Get a domain. Scope: `domains:read`. */
  getDomain: { takes: [id: string], answer: Domain }
  /** Change the defaults of a domain. Scope: `domains:write`. A live key must ask this. */
  updateDomain: { takes: [id: string, body: UpdateDomainRequest], answer: Domain }
  /** Delete a domain. Scope: `domains:write`. A live key must ask this. */
  deleteDomain: { takes: [id: string], answer: undefined }
  /** Rotate the DKIM keys of a domain. The new keys sign once DNS shows their records. Keep the old records for 7
   *  days more. Scope: `domains:write`. A live key must ask this. */
  rotateDomainKeys: { takes: [id: string], answer: Domain }
  /** Check the DNS records of a domain now. Scope: `domains:write`. A live key must ask this. */
  verifyDomain: { takes: [id: string], answer: Domain }
  /** Create a key. The secret is `key` in this answer and nowhere else. A key grants no more than it holds: scopes,
   *  domains and time. A test key grants only test keys. Scope: `keys:write`. */
  createKey: { takes: [body: CreateKeyRequest], answer: CreateKeyAnswer }
  /** List keys. Scope: `keys:read`. */
  listKeys: { takes: [query?: PageQuery], answer: ListKeysAnswer }
  /** Get a key. Scope: `keys:read`. */
  getKey: { takes: [id: string], answer: Key }
  /** Change a key. What is left out stays. Neither before nor after may the key hold more than the key that asks.
   *  Scopes, domains and expiry of the key in JETPOST_API_KEY cannot be changed. Scope: `keys:write`. */
  updateKey: { takes: [id: string, body: UpdateKeyRequest], answer: Key }
  /** Revoke a key. It stops working everywhere within a second. A key may revoke itself, and keys that hold no more
   *  than it does. With `with_children=true` all keys that come from it end with it, and the answer is 200 and says
   *  how many; this also works where the key itself, or a key between, was revoked before. If one of them holds more
   *  than the key that asks, none ends. Scope: `keys:write`. */
  deleteKey: { takes: [id: string, query?: DeleteKeyQuery], answer: DeleteKeyAnswer | undefined }
  /** Rotate the secret of a key. The previous secret works for `overlap_s` seconds more; an older one stops working.
   *  Both secrets are one key, with one id and one window. Scope: `keys:write`. */
  rotateKey: { takes: [id: string, body?: RotateKeyRequest], answer: CreateKeyAnswer }
  /** Get the key that asks. Its scopes, domains, limits and end, and the account it belongs to. Any key may ask
   *  this. */
  getMe: { takes: [], answer: Me }
  /** Add a user. The person may sign in to the dashboard from now on: at the issuer in JETPOST_OIDC_ISSUER with this
   *  address, or by a link (`POST /api/users/{id}/link`). Nobody gives a role with more powers than their own.
   *  Scope: `users:write`. A live key must ask this. */
  createUser: { takes: [body: CreateUserRequest], answer: User }
  /** List users. Scope: `users:read`. */
  listUsers: { takes: [query?: PageQuery], answer: ListUsersAnswer }
  /** Get a user. Scope: `users:read`. */
  getUser: { takes: [id: string], answer: User }
  /** Change a user. What is left out stays. A new role holds at once, also for open sessions. The last operator and
   *  the last owner cannot give up that role themselves. Scope: `users:write`. A live key must ask this. */
  updateUser: { takes: [id: string, body: UpdateUserRequest], answer: User }
  /** Remove a user. The sessions of the person end everywhere within a second. With `with_keys=true` the keys that
   *  they have made end too, and the answer is 200 and says how many. Scope: `users:write`. A live key must ask
   *  this. */
  deleteUser: { takes: [id: string, query?: DeleteUserQuery], answer: DeleteUserAnswer | undefined }
  /** Create a sign-in link. It works once, within a day, and signs in as this person: pass it on where only they can
   *  read it. Scope: `users:write`. A live key must ask this. */
  createUserLink: { takes: [id: string], answer: CreateUserLinkAnswer }
  /** Create an account. An account has its own keys, domains, mail and webhooks. Give it a first key with `POST
   *  /api/accounts/{id}/keys`. Scope: `operator`. A live key must ask this. */
  createAccount: { takes: [body: CreateAccountRequest], answer: Account }
  /** List accounts. Scope: `operator`. */
  listAccounts: { takes: [query?: PageQuery], answer: ListAccountsAnswer }
  /** Get an account. Scope: `operator`. */
  getAccount: { takes: [id: string], answer: Account }
  /** Set the limits of an account. What is left out stays, and so do classes of `limits` that are left out. Scope:
   *  `operator`. A live key must ask this. */
  updateAccount: { takes: [id: string, body: UpdateAccountRequest], answer: Account }
  /** Suspend an account. Nothing of it goes out: new mail is refused with the reason, and what was accepted waits.
   *  Reads, settings and webhooks go on. The first account cannot be suspended. Scope: `operator`. A live key must
   *  ask this. */
  suspendAccount: { takes: [id: string, body: SuspendAccountRequest], answer: Account }
  /** Resume an account. What waits goes out within five minutes. Bounces and complaints from before do not suspend
   *  it again. Scope: `operator`. A live key must ask this. */
  resumeAccount: { takes: [id: string], answer: Account }
  /** Create a key of an account. The secret is `key` in this answer and nowhere else. The account manages its keys
   *  with it, if its scopes allow that. Scope: `operator`. A live key must ask this. */
  createAccountKey: { takes: [id: string, body: CreateKeyRequest], answer: CreateKeyAnswer }
  /** Create a route for outgoing mail. Mail that no route takes goes by SMTP_URL. Who sets a relay can read the mail
   *  that goes by it. Scope: `operator`. A live key must ask this. */
  createRoute: { takes: [body: CreateRouteRequest], answer: Route }
  /** List routes. Scope: `operator`. */
  listRoutes: { takes: [query?: PageQuery], answer: ListRoutesAnswer }
  /** Get a route. Scope: `operator`. */
  getRoute: { takes: [id: string], answer: Route }
  /** Change a route. What is left out stays. Scope: `operator`. A live key must ask this. */
  updateRoute: { takes: [id: string, body: UpdateRouteRequest], answer: Route }
  /** Delete a route. What waits for it goes by the routes that are left. Scope: `operator`. A live key must ask
   *  this. */
  deleteRoute: { takes: [id: string], answer: undefined }
  /** Create a feedback source. Give `url` to the provider as the URL of its webhook. `ses` takes a `topic_arn`,
   *  `mailgun` and `sendgrid` a `verification_key`, `generic` a `mapping`. Scope: `operator`. A live key must ask
   *  this. */
  createFeedbackSource: { takes: [body: CreateFeedbackSourceRequest], answer: CreateFeedbackSourceAnswer }
  /** List feedback sources. Scope: `operator`. */
  listFeedbackSources: { takes: [query?: PageQuery], answer: ListFeedbackSourcesAnswer }
  /** Get a feedback source. Scope: `operator`. */
  getFeedbackSource: { takes: [id: string], answer: FeedbackSource }
  /** Change a feedback source. Scope: `operator`. A live key must ask this. */
  updateFeedbackSource: { takes: [id: string, body: UpdateFeedbackSourceRequest], answer: FeedbackSource }
  /** Delete a feedback source. Scope: `operator`. A live key must ask this. */
  deleteFeedbackSource: { takes: [id: string], answer: undefined }
  /** Give a feedback source a new URL. The answer has a new `url`; the one before works for 24 more hours. Scope:
   *  `operator`. A live key must ask this. */
  rotateFeedbackSource: { takes: [id: string], answer: CreateFeedbackSourceAnswer }
  /** Create a webhook endpoint. A test key makes and changes endpoints of mode `test` alone. Scope:
   *  `webhooks:write`. */
  createWebhook: { takes: [body: CreateWebhookRequest], answer: CreateWebhookAnswer }
  /** List webhook endpoints. Scope: `webhooks:read`. */
  listWebhooks: { takes: [query?: PageQuery], answer: ListWebhooksAnswer }
  /** Get a webhook endpoint. Scope: `webhooks:read`. */
  getWebhook: { takes: [id: string], answer: Webhook }
  /** Change, pause, resume or enable a webhook endpoint. A test key makes and changes endpoints of mode `test`
   *  alone. Scope: `webhooks:write`. */
  updateWebhook: { takes: [id: string, body: UpdateWebhookRequest], answer: Webhook }
  /** Delete a webhook endpoint. Scope: `webhooks:write`. */
  deleteWebhook: { takes: [id: string], answer: undefined }
  /** Rotate the signing secret of a webhook endpoint. For 24 hours both secrets sign in webhook-signature, and
   *  X-Service-Signature keeps the old one. Another rotation is refused until then. Scope: `webhooks:write`. */
  rotateWebhookSecret: { takes: [id: string, body?: RotateWebhookSecretRequest], answer: RotateWebhookSecretAnswer }
  /** Send a test event to a webhook endpoint. Sends a made-up event, with `data.test` true, signed and retried like
   *  any other. Scope: `webhooks:write`. */
  testWebhook: { takes: [id: string, body?: TestWebhookRequest], answer: TestWebhookAnswer }
  /** List deliveries to all webhook endpoints. Newest first, for 30 days, also to endpoints that were deleted. All
   *  given filters must hold. Scope: `webhooks:read`. */
  listDeliveries: { takes: [query?: ListDeliveriesQuery], answer: ListDeliveriesAnswer }
  /** List the deliveries of a webhook endpoint. Newest first, for 30 days, also of an endpoint that was deleted. All
   *  given filters must hold. Scope: `webhooks:read`. */
  listWebhookDeliveries: { takes: [id: string, query?: ListWebhookDeliveriesQuery], answer: ListDeliveriesAnswer }
  /** Get a delivery with its requests and their answers. Scope: `webhooks:read`. */
  getDelivery: { takes: [id: string], answer: Delivery }
  /** Send a delivery again. Whatever its state: the same id, the same bytes. Its attempts and its 24 hours begin
   *  again. Scope: `webhooks:write`. */
  replayDelivery: { takes: [id: string], answer: ReplayDeliveryAnswer }
  /** Send events of the past to a webhook endpoint again. With the same ids and the same bytes, behind new events.
   *  Ten can be under way at once. Scope: `webhooks:write`. */
  createReplay: { takes: [id: string, body: CreateReplayRequest], answer: Replay }
  /** List the replays of a webhook endpoint. Newest first, with how far each has come: the last 500 of the last 30
   *  days. Scope: `webhooks:read`. */
  listReplays: { takes: [id: string, query?: PageQuery], answer: ListReplaysAnswer }
  /** Count what a replay would send. Takes what creating the replay takes, and sends nothing. Scope:
   *  `webhooks:read`. */
  countReplay: { takes: [id: string, body: CreateReplayRequest], answer: CountReplayAnswer }
  /** Get a replay and how far it has come. Scope: `webhooks:read`. */
  getReplay: { takes: [id: string], answer: Replay }
  /** Cancel a replay. It requests no more deliveries; those that it has requested are still sent. Scope:
   *  `webhooks:write`. */
  cancelReplay: { takes: [id: string], answer: Replay }
  /** Suppress an address. It gets no mail of this account from now on. Answers 200 when it was suppressed before; a
   *  new reason is then added. Scope: `suppressions:write`. A live key must ask this. */
  createSuppression: { takes: [body: CreateSuppressionRequest], answer: Suppression }
  /** List suppressed addresses. Newest first. All given filters must hold. Scope: `suppressions:read`. */
  listSuppressions: { takes: [query?: ListSuppressionsQuery], answer: ListSuppressionsAnswer }
  /** Get the suppression of an address. Scope: `suppressions:read`. */
  getSuppression: { takes: [address: string], answer: Suppression }
  /** Remove the suppression of an address. It gets mail again, whatever the reasons were. Scope:
   *  `suppressions:write`. A live key must ask this. */
  deleteSuppression: { takes: [address: string], answer: undefined }
  /** Export suppressed addresses. All suppressed addresses as a file, newest first, a line for each reason of an
   *  address, with `address`, `reason`, `email_id` and `since`. An import reads it. An address that was erased is
   *  empty, or null. The answer is streamed: one that breaks off is not complete. A client that reads nothing for a
   *  minute is disconnected. Scope: `suppressions:read`. */
  exportSuppressions: { takes: [query?: ExportSuppressionsQuery], answer: Uint8Array }
  /** Forget a person. Cancels what is waiting for the address, and removes the address from the log and every
   *  projection, with all that was said to it and about it. What is counted stays: statuses, times, and that it is
   *  suppressed, by its hash. A second request while one is under way answers with the same erasure. Scope:
   *  `erasures:write`. A live key must ask this. */
  createErasure: { takes: [body: CreateErasureRequest], answer: Erasure }
  /** List erasures. Newest first. Scope: `erasures:write`. */
  listErasures: { takes: [query?: PageQuery], answer: ListErasuresAnswer }
  /** Get the receipt of an erasure. Scope: `erasures:write`. */
  getErasure: { takes: [id: string], answer: Erasure }
  /** List who changed what. Who changed what in the account, newest first. All given filters must hold. Sending
   *  mail, and what follows from mail, is in the events and not here. Scope: `audit:read`. */
  listAudit: { takes: [query?: ListAuditQuery], answer: ListAuditAnswer }
  /** Export who changed what. The same as a file. The answer is streamed: one that breaks off is not complete. A
   *  client that reads nothing for a minute is disconnected. Scope: `audit:read`. */
  exportAudit: { takes: [query?: ExportAuditQuery], answer: Uint8Array }
  /** Count what became of mail. How many recipients mail was accepted for, and what became of it. Everything counts
   *  in the hour (UTC) in which it happened: a click of today on a mail of yesterday counts today. At most 744
   *  buckets. All given filters must hold. A recipient that was retried after a bounce may count as both `bounced`
   *  and `delivered`, and so does one whose mail came back later. Opens and clicks by programs are not counted; the
   *  email's timeline has them. Mail of test keys is counted like any other. Erased recipients stay in all counts,
   *  with an empty `destination`. Test addresses, those of `sandbox.jetpost.test`, are left out: what becomes of
   *  their mail is made up. They count as a `destination` alone. Unlike other reads this one may be a second behind:
   *  mail counts as accepted once it is recorded for that. Hours and days are kept for as long as events are. Months
   *  are closed on the fourth day after they end, and then kept for ever by `domain`; by `tag` and `destination`
   *  they go with their days. Scope: `emails:list`. */
  getStats: { takes: [query?: GetStatsQuery], answer: Stats }
  /** Read events, or follow them as they happen. The events that webhooks get, with the same bodies, oldest first,
   *  for as long as they are kept. Without test events, and without the deferrals between an email's first one and
   *  its end. All given filters must hold. Pass `next_cursor` as `after`, again and again, and you miss nothing and
   *  get nothing twice. It also answers while PostgreSQL is unavailable. With `Accept: text/event-stream` it is an
   *  endless stream of server-sent events, each with `id` (a cursor), `event` (its type) and `data` (its body on one
   *  line). It begins after `Last-Event-ID`, else after `after`, else at `created_after`, else now. A comment comes
   *  every 15 seconds when there is no event. A stream counts as one request, takes no `limit`, and ends with its
   *  key. An account can have 20 streams on one server; one more gets 503 `too_many_streams`. A client that reads
   *  nothing for a minute is disconnected. Scope: `emails:metadata`. */
  listEvents: { takes: [query?: ListEventsQuery], answer: ListEventsAnswer }
  /** Suppress many addresses. Up to 50000 addresses, 20 MB, as `text/csv` or `application/x-ndjson`, in UTF-8. In
   *  CSV the first line names the columns: `address` or `email`, and perhaps `reason`; without such a line they are
   *  the first and the second. Commas, semicolons and tabs part them. In NDJSON each line is an object with
   *  `address`, and perhaps `reason`. Everything else in a line is ignored. All of the file is read before the first
   *  address is suppressed: a file that is too long, or no CSV, changes nothing. A line that is wrong does not keep
   *  others out; `refused` lists every one of them. What stands already stays as it is, so the same file may be sent
   *  again, also after a 503 in the middle of it. Scope: `suppressions:write`. A live key must ask this. */
  importSuppressions: {
    takes: [body: string | Uint8Array, query?: ImportSuppressionsQuery]
    answer: ImportSuppressionsAnswer
  }
}

/** How each is asked for: `takes` names what stands in its path, then body and query. */
export const operations = {
  sendEmail: { method: 'POST', path: '/api/emails', takes: ['body'], idempotent: true },
  listEmails: { method: 'GET', path: '/api/emails', takes: ['query'] },
  sendBatch: { method: 'POST', path: '/api/emails/batch', takes: ['body'], idempotent: true },
  getEmail: { method: 'GET', path: '/api/emails/{id}', takes: ['id', 'query'] },
  rescheduleEmail: { method: 'PATCH', path: '/api/emails/{id}', takes: ['id', 'body'] },
  cancelEmail: { method: 'POST', path: '/api/emails/{id}/cancel', takes: ['id'] },
  retryEmail: { method: 'POST', path: '/api/emails/{id}/retry', takes: ['id'] },
  getEmailContent: { method: 'GET', path: '/api/emails/{id}/content', takes: ['id'] },
  getEmailRaw: { method: 'GET', path: '/api/emails/{id}/raw', takes: ['id', 'query'] },
  createTemplate: { method: 'POST', path: '/api/templates', takes: ['body'] },
  listTemplates: { method: 'GET', path: '/api/templates', takes: ['query'] },
  updateTemplate: { method: 'PATCH', path: '/api/templates/{id}', takes: ['id', 'body'] },
  deleteTemplate: { method: 'DELETE', path: '/api/templates/{id}', takes: ['id'] },
  getTemplate: { method: 'GET', path: '/api/templates/{id}', takes: ['id', 'query'] },
  listTemplateVersions: { method: 'GET', path: '/api/templates/{id}/versions', takes: ['id', 'query'] },
  previewTemplate: { method: 'POST', path: '/api/templates/{id}/preview', takes: ['id', 'body'] },
  createDomain: { method: 'POST', path: '/api/domains', takes: ['body'] },
  listDomains: { method: 'GET', path: '/api/domains', takes: ['query'] },
  getDomain: { method: 'GET', path: '/api/domains/{id}', takes: ['id'] },
  updateDomain: { method: 'PATCH', path: '/api/domains/{id}', takes: ['id', 'body'] },
  deleteDomain: { method: 'DELETE', path: '/api/domains/{id}', takes: ['id'] },
  rotateDomainKeys: { method: 'POST', path: '/api/domains/{id}/rotate-dkim', takes: ['id'] },
  verifyDomain: { method: 'POST', path: '/api/domains/{id}/verify', takes: ['id'] },
  createKey: { method: 'POST', path: '/api/keys', takes: ['body'] },
  listKeys: { method: 'GET', path: '/api/keys', takes: ['query'] },
  getKey: { method: 'GET', path: '/api/keys/{id}', takes: ['id'] },
  updateKey: { method: 'PATCH', path: '/api/keys/{id}', takes: ['id', 'body'] },
  deleteKey: { method: 'DELETE', path: '/api/keys/{id}', takes: ['id', 'query'] },
  rotateKey: { method: 'POST', path: '/api/keys/{id}/rotate', takes: ['id', 'body'] },
  getMe: { method: 'GET', path: '/api/me', takes: [] },
  createUser: { method: 'POST', path: '/api/users', takes: ['body'] },
  listUsers: { method: 'GET', path: '/api/users', takes: ['query'] },
  getUser: { method: 'GET', path: '/api/users/{id}', takes: ['id'] },
  updateUser: { method: 'PATCH', path: '/api/users/{id}', takes: ['id', 'body'] },
  deleteUser: { method: 'DELETE', path: '/api/users/{id}', takes: ['id', 'query'] },
  createUserLink: { method: 'POST', path: '/api/users/{id}/link', takes: ['id'] },
  createAccount: { method: 'POST', path: '/api/accounts', takes: ['body'] },
  listAccounts: { method: 'GET', path: '/api/accounts', takes: ['query'] },
  getAccount: { method: 'GET', path: '/api/accounts/{id}', takes: ['id'] },
  updateAccount: { method: 'PATCH', path: '/api/accounts/{id}', takes: ['id', 'body'] },
  suspendAccount: { method: 'POST', path: '/api/accounts/{id}/suspend', takes: ['id', 'body'] },
  resumeAccount: { method: 'POST', path: '/api/accounts/{id}/resume', takes: ['id'] },
  createAccountKey: { method: 'POST', path: '/api/accounts/{id}/keys', takes: ['id', 'body'] },
  createRoute: { method: 'POST', path: '/api/routes', takes: ['body'] },
  listRoutes: { method: 'GET', path: '/api/routes', takes: ['query'] },
  getRoute: { method: 'GET', path: '/api/routes/{id}', takes: ['id'] },
  updateRoute: { method: 'PATCH', path: '/api/routes/{id}', takes: ['id', 'body'] },
  deleteRoute: { method: 'DELETE', path: '/api/routes/{id}', takes: ['id'] },
  createFeedbackSource: { method: 'POST', path: '/api/feedback-sources', takes: ['body'] },
  listFeedbackSources: { method: 'GET', path: '/api/feedback-sources', takes: ['query'] },
  getFeedbackSource: { method: 'GET', path: '/api/feedback-sources/{id}', takes: ['id'] },
  updateFeedbackSource: { method: 'PATCH', path: '/api/feedback-sources/{id}', takes: ['id', 'body'] },
  deleteFeedbackSource: { method: 'DELETE', path: '/api/feedback-sources/{id}', takes: ['id'] },
  rotateFeedbackSource: { method: 'POST', path: '/api/feedback-sources/{id}/rotate', takes: ['id'] },
  createWebhook: { method: 'POST', path: '/api/webhooks', takes: ['body'] },
  listWebhooks: { method: 'GET', path: '/api/webhooks', takes: ['query'] },
  getWebhook: { method: 'GET', path: '/api/webhooks/{id}', takes: ['id'] },
  updateWebhook: { method: 'PATCH', path: '/api/webhooks/{id}', takes: ['id', 'body'] },
  deleteWebhook: { method: 'DELETE', path: '/api/webhooks/{id}', takes: ['id'] },
  rotateWebhookSecret: { method: 'POST', path: '/api/webhooks/{id}/rotate-secret', takes: ['id', 'body'] },
  testWebhook: { method: 'POST', path: '/api/webhooks/{id}/test', takes: ['id', 'body'] },
  listDeliveries: { method: 'GET', path: '/api/deliveries', takes: ['query'] },
  listWebhookDeliveries: { method: 'GET', path: '/api/webhooks/{id}/deliveries', takes: ['id', 'query'] },
  getDelivery: { method: 'GET', path: '/api/deliveries/{id}', takes: ['id'] },
  replayDelivery: { method: 'POST', path: '/api/deliveries/{id}/replay', takes: ['id'] },
  createReplay: { method: 'POST', path: '/api/webhooks/{id}/replays', takes: ['id', 'body'] },
  listReplays: { method: 'GET', path: '/api/webhooks/{id}/replays', takes: ['id', 'query'] },
  countReplay: { method: 'POST', path: '/api/webhooks/{id}/replays/count', takes: ['id', 'body'] },
  getReplay: { method: 'GET', path: '/api/replays/{id}', takes: ['id'] },
  cancelReplay: { method: 'POST', path: '/api/replays/{id}/cancel', takes: ['id'] },
  createSuppression: { method: 'POST', path: '/api/suppressions', takes: ['body'] },
  listSuppressions: { method: 'GET', path: '/api/suppressions', takes: ['query'] },
  getSuppression: { method: 'GET', path: '/api/suppressions/{address}', takes: ['address'] },
  deleteSuppression: { method: 'DELETE', path: '/api/suppressions/{address}', takes: ['address'] },
  exportSuppressions: { method: 'GET', path: '/api/suppressions/export', takes: ['query'] },
  createErasure: { method: 'POST', path: '/api/erasures', takes: ['body'] },
  listErasures: { method: 'GET', path: '/api/erasures', takes: ['query'] },
  getErasure: { method: 'GET', path: '/api/erasures/{id}', takes: ['id'] },
  listAudit: { method: 'GET', path: '/api/audit', takes: ['query'] },
  exportAudit: { method: 'GET', path: '/api/audit/export', takes: ['query'] },
  getStats: { method: 'GET', path: '/api/stats', takes: ['query'] },
  listEvents: { method: 'GET', path: '/api/events', takes: ['query'] },
  importSuppressions: {
    method: 'POST',
    path: '/api/suppressions/import',
    takes: ['body', 'query'],
    uploads: ['text/csv', 'application/x-ndjson']
  }
} as const
