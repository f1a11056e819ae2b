// Made from the OpenAPI document by `npm run client`: what is changed here by hand is lost.

import type {
  CancelEmailAnswer,
  CreateDomainRequest,
  CreateErasureRequest,
  CreateKeyAnswer,
  CreateKeyRequest,
  CreateSuppressionRequest,
  CreateTemplateRequest,
  CreateWebhookAnswer,
  CreateWebhookRequest,
  Domain,
  Email,
  EmailContent,
  Erasure,
  Key,
  ListDomainsAnswer,
  ListEmailsAnswer,
  ListErasuresAnswer,
  ListEventsAnswer,
  ListKeysAnswer,
  ListSuppressionsAnswer,
  ListTemplateVersionsAnswer,
  ListTemplatesAnswer,
  ListWebhooksAnswer,
  PreviewTemplateAnswer,
  PreviewTemplateRequest,
  RescheduleEmailAnswer,
  RescheduleEmailRequest,
  RetryEmailAnswer,
  RotateKeyRequest,
  RotateWebhookSecretAnswer,
  RotateWebhookSecretRequest,
  SendBatchAnswer,
  SendBatchRequest,
  SendEmailAnswer,
  SendEmailRequest,
  Stats,
  Suppression,
  Template,
  TestWebhookAnswer,
  TestWebhookRequest,
  UpdateDomainRequest,
  UpdateKeyRequest,
  UpdateTemplateRequest,
  UpdateWebhookRequest,
  Webhook,
  ListEmailsQuery,
  GetEmailQuery,
  GetEmailRawQuery,
  PageQuery,
  GetTemplateQuery,
  ListSuppressionsQuery,
  GetStatsQuery,
  ListEventsQuery
} from './types.ts'

/** What each operation takes and answers, by its operationId. */
export interface Operations {
  /** Send an email. Answers once the email is durably accepted. Each recipient gets a message of its own, and has a
   *  status of its own. Scope: `emails:send`. */
  sendEmail: { takes: [body: SendEmailRequest], answer: SendEmailAnswer }
  /** List emails. The emails of the account, newest first, without their bodies. All filters given must hold; `q` looks
   *  for text in subject, sender and recipients. Scope: `emails:read`. */
  listEmails: { takes: [query?: ListEmailsQuery], answer: ListEmailsAnswer }
  /** Send up to 100 emails. One durable append: in strict mode all are accepted or none, in permissive mode all that
   *  have no fault. Scope: `emails:send`. */
  sendBatch: { takes: [body: SendBatchRequest], answer: SendBatchAnswer }
  /** Look at an email. The email, the state of each recipient, and in its timeline all that happened to it, with the
   *  words of the servers it was handed to. Scope: `emails:read`. */
  getEmail: { takes: [id: string, query?: GetEmailQuery], answer: Email }
  /** Move a scheduled email to another time. Lists the recipients that were moved and those that had gone; 409 when all
   *  had. Scope: `emails:send`. */
  rescheduleEmail: { takes: [id: string, body: RescheduleEmailRequest], answer: RescheduleEmailAnswer }
  /** Cancel an email. Lists the recipients that will get nothing (more), and those that it came too late for; 409 when
   *  it came too late for all. Scope: `emails:send`. */
  cancelEmail: { takes: [id: string], answer: CancelEmailAnswer }
  /** Send an email again to those who did not get it. To recipients that bounced, failed, were suppressed or are held
   *  in doubt. 409 when there are none, or when the content is gone. Scope: `emails:send`. */
  retryEmail: { takes: [id: string], answer: RetryEmailAnswer }
  /** The bodies of an email and its list of attachments. Scope: `emails:read`. */
  getEmailContent: { takes: [id: string], answer: EmailContent }
  /** The message of a recipient as it goes out. RFC 5322 bytes, as strong as the mail itself: who has them can
   *  unsubscribe its recipient. `recipient` is the place in `recipients`, 0 unless told. Scope: `emails:read`. */
  getEmailRaw: { takes: [id: string, query?: GetEmailRawQuery], answer: Uint8Array }
  /** Create a template. Mustache (github.com/mustache/spec 1.4, the core modules) in subject, html and text; {{name}}
   *  is escaped in html. An account has at most 10,000 templates. Scope: `templates:write`. */
  createTemplate: { takes: [body: CreateTemplateRequest], answer: Template }
  /** List templates. Scope: `templates:read`. */
  listTemplates: { takes: [query?: PageQuery], answer: ListTemplatesAnswer }
  /** Make the next version of a template. Versions never change. When nothing is another than before there is no new
   *  one. Scope: `templates:write`. */
  updateTemplate: { takes: [id: string, body: UpdateTemplateRequest], answer: Template }
  /** Delete a template. Mail that names it is refused from then on. A template that is the layout of others stays: 409
   *  `template_in_use`. Scope: `templates:write`. */
  deleteTemplate: { takes: [id: string], answer: undefined }
  /** Get a template, or one of its versions. Scope: `templates:read`. */
  getTemplate: { takes: [id: string, query?: GetTemplateQuery], answer: Template }
  /** List the versions of a template. Scope: `templates:read`. */
  listTemplateVersions: { takes: [id: string, query?: PageQuery], answer: ListTemplateVersionsAnswer }
  /** Render a template, sending nothing. In its layout, as it is now. What was not given is listed as missing and left
   *  empty. Scope: `templates:read`. */
  previewTemplate: { takes: [id: string, body?: PreviewTemplateRequest], answer: PreviewTemplateAnswer }
  /** Add a domain; adding it again answers 200 with what is there. Scope: `domains:write`. */
  createDomain: { takes: [body: CreateDomainRequest], answer: Domain }
  /** List domains. Scope: `domains:read`. */
  listDomains: { takes: [query?: PageQuery], answer: ListDomainsAnswer }
  /** Get a domain. Scope: `domains:read`. */
  getDomain: { takes: [id: string], answer: Domain }
  /** Change what a domain says about mail. Scope: `domains:write`. */
  updateDomain: { takes: [id: string, body: UpdateDomainRequest], answer: Domain }
  /** Give a domain up. Scope: `domains:write`. */
  deleteDomain: { takes: [id: string], answer: undefined }
  /** Make new DKIM keys; they sign once their records are seen in DNS, and the old records are to stay for 7 days more.
   *  Scope: `domains:write`. */
  rotateDomainKeys: { takes: [id: string], answer: Domain }
  /** Look at the DNS records of a domain now. Scope: `domains:write`. */
  verifyDomain: { takes: [id: string], answer: Domain }
  /** Create a key. The secret is `key` in this answer and nowhere else. A key grants no more than it holds: scopes,
   *  domains, time, and a test key only test keys. Scope: `keys:write`. */
  createKey: { takes: [body: CreateKeyRequest], answer: CreateKeyAnswer }
  /** List keys. Scope: `keys:read`. */
  listKeys: { takes: [query?: PageQuery], answer: ListKeysAnswer }
  /** Get a key. Scope: `keys:read`. */
  getKey: { takes: [id: string], answer: Key }
  /** Change a key. What is left out stays. Neither before nor after may the key hold more than the one that asks. Of
   *  the key that the operator has fixed, scopes, domains and end stay as they are. Scope: `keys:write`. */
  updateKey: { takes: [id: string, body: UpdateKeyRequest], answer: Key }
  /** Revoke a key. It stops everywhere within a second, with all its secrets. A key may revoke itself, and keys that
   *  hold no more than it does. Scope: `keys:write`. */
  deleteKey: { takes: [id: string], answer: undefined }
  /** Give a key a new secret. The secret before works `overlap_s` seconds longer (86400 when left out; 0 ends it at
   *  once), and any older one no more. Both are one key, with one id and one window. Scope: `keys:write`. */
  rotateKey: { takes: [id: string, body?: RotateKeyRequest], answer: CreateKeyAnswer }
  /** Create a webhook endpoint. Scope: `webhooks:write`. */
  createWebhook: { takes: [body: CreateWebhookRequest], answer: CreateWebhookAnswer }
  /** List webhook endpoints. Scope: `webhooks:read`. */
  listWebhooks: { takes: [query?: PageQuery], answer: ListWebhooksAnswer }
  /** Read a webhook endpoint. Scope: `webhooks:read`. */
  getWebhook: { takes: [id: string], answer: Webhook }
  /** Change, pause, resume or enable a webhook endpoint. Scope: `webhooks:write`. */
  updateWebhook: { takes: [id: string, body: UpdateWebhookRequest], answer: Webhook }
  /** Delete a webhook endpoint. Scope: `webhooks:write`. */
  deleteWebhook: { takes: [id: string], answer: undefined }
  /** Give a webhook endpoint a new signing secret, or end the overlap of the last rotation. For 24 hours both secrets
   *  sign in webhook-signature, and X-Service-Signature keeps the old one; a second rotation is refused until then.
   *  Scope: `webhooks:write`. */
  rotateWebhookSecret: { takes: [id: string, body?: RotateWebhookSecretRequest], answer: RotateWebhookSecretAnswer }
  /** Send a test event to a webhook endpoint. A made-up event with data.test true, signed, sent and retried like any
   *  other, whatever the endpoint subscribes to. Without type it is the first of its events. Scope: `webhooks:write`.
   */
  testWebhook: { takes: [id: string, body?: TestWebhookRequest], answer: TestWebhookAnswer }
  /** Suppress an address. It gets no mail of this account from now on. 200 when it was suppressed before; a further
   *  reason then joins those that stand. Scope: `suppressions:write`. */
  createSuppression: { takes: [body: CreateSuppressionRequest], answer: Suppression }
  /** List suppressed addresses. Those of the account, newest first. All filters given must hold. `created_after` is
   *  inclusive, `created_before` is not. Scope: `suppressions:read`. */
  listSuppressions: { takes: [query?: ListSuppressionsQuery], answer: ListSuppressionsAnswer }
  /** Look at the suppression of an address. Scope: `suppressions:read`. */
  getSuppression: { takes: [address: string], answer: Suppression }
  /** Let an address have mail again. Whatever the reasons were, all of them end. Scope: `suppressions:write`. */
  deleteSuppression: { takes: [address: string], answer: undefined }
  /** Forget a person. Calls off what still waits for the address, and takes it out of the log and of every view, with
   *  all that was said to it and about it. What is counted stays: statuses, times, and that it is suppressed, by its
   *  hash alone. Asked again while it is under way, it answers with the same erasure. Scope: `erasures:write`. */
  createErasure: { takes: [body: CreateErasureRequest], answer: Erasure }
  /** List erasures. Those of the account, newest first. Scope: `erasures:write`. */
  listErasures: { takes: [query?: PageQuery], answer: ListErasuresAnswer }
  /** The receipt of an erasure. Scope: `erasures:write`. */
  getErasure: { takes: [id: string], answer: Erasure }
  /** Count what became of mail. How many recipients mail was accepted for, and what became of it. Each thing counts in
   *  the hour (UTC) in which it happened, so a click of today on a mail of yesterday is today's. Without `from` it is
   *  the last 24 hours, 30 days or 12 months; `from` and `to` are widened to whole buckets, of which there are at most
   *  744. All filters given must hold; `domain` = the sender's, `destination` = the recipient's. A recipient that was
   *  tried again after a bounce may count as both `bounced` and `delivered`, and so does one whose mail came back
   *  later. Opens and clicks by programs are not counted; the email's timeline has them. Mail of test keys is counted
   *  like any other. Recipients that were erased stay in all counts; their `destination` is the empty one. Unlike other
   *  reads this one may be a second behind: mail counts as accepted once it is written down for it. Hours and days are
   *  known for as long as what happened to mail is kept. Months are closed from the fourth day after they end on, and
   *  then stay for ever by `domain`; by `tag` and `destination` they go with their days. Scope: `emails:read`. */
  getStats: { takes: [query?: GetStatsQuery], answer: Stats }
  /** Read events, or follow them as they happen. The same events that webhooks get, the same bodies, oldest first, for
   *  as long as facts are kept. Test events are none of them, and neither are deferrals between an email's first and
   *  its end. All filters given must hold; `created_after` is inclusive, `created_before` is not. Pass `next_cursor` as
   *  `after`, again and again, and you miss nothing and get nothing twice. It does not need the view: it answers while
   *  PostgreSQL is away. With `Accept: text/event-stream` it is a stream of server-sent events that goes on for ever,
   *  each with `id` (a cursor), `event` (its type) and `data` (its body on one line). It begins after `Last-Event-ID`,
   *  else after `after`, else at `created_after`, else now. A comment comes every 15 seconds when nothing else does. It
   *  counts as one request, takes no `limit`, and ends with its key; an account can have 20 of them on one node, and
   *  for one more gets 503 `too_many_streams`. Whoever reads nothing for a minute is cut off. Scope: `emails:read`. */
  listEvents: { takes: [query?: ListEventsQuery], answer: ListEventsAnswer }
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
  deleteKey: { method: 'DELETE', path: '/api/keys/{id}', takes: ['id'] },
  rotateKey: { method: 'POST', path: '/api/keys/{id}/rotate', takes: ['id', 'body'] },
  createWebhook: { method: 'POST', path: '/api/webhooks', takes: ['body'] },
  listWebhooks: { method: 'GET', path: '/api/webhooks', takes: ['query'] },
  getWebhook: { method: 'GET', path: '/api/webhooks/{id}', takes: ['id'] },
  updateWebhook: { method: 'PATCH', path: '/api/webhooks/{id}', takes: ['id', 'body'] },
  deleteWebhook: { method: 'DELETE', path: '/api/webhooks/{id}', takes: ['id'] },
  rotateWebhookSecret: { method: 'POST', path: '/api/webhooks/{id}/rotate-secret', takes: ['id', 'body'] },
  testWebhook: { method: 'POST', path: '/api/webhooks/{id}/test', takes: ['id', 'body'] },
  createSuppression: { method: 'POST', path: '/api/suppressions', takes: ['body'] },
  listSuppressions: { method: 'GET', path: '/api/suppressions', takes: ['query'] },
  getSuppression: { method: 'GET', path: '/api/suppressions/{address}', takes: ['address'] },
  deleteSuppression: { method: 'DELETE', path: '/api/suppressions/{address}', takes: ['address'] },
  createErasure: { method: 'POST', path: '/api/erasures', takes: ['body'] },
  listErasures: { method: 'GET', path: '/api/erasures', takes: ['query'] },
  getErasure: { method: 'GET', path: '/api/erasures/{id}', takes: ['id'] },
  getStats: { method: 'GET', path: '/api/stats', takes: ['query'] },
  listEvents: { method: 'GET', path: '/api/events', takes: ['query'] }
} as const
