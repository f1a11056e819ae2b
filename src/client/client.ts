import { Caller, type CallOptions, type SendOptions } from './caller.ts'
import { tail, type TailedEvent } from './tail.ts'
import type {
  Email,
  ExportAuditQuery,
  ExportSuppressionsQuery,
  ListEventsQuery,
  SendBatchAnswer,
  SendBatchRequest,
  WebhookEvent
} from './types.ts'

export type {
  Answer,
  Arguments,
  CallOptions,
  JetpostOptions,
  OperationName,
  SendOptions,
  UploadOptions
} from './caller.ts'
export { JetpostError } from './error.ts'
export type { Operations } from './operations.ts'
export type { TailedEvent } from './tail.ts'
export type * from './types.ts'
export * from './webhook.ts'

export interface BatchOptions extends SendOptions {
  /** `strict`: all are accepted, or none (unless told). `permissive`: those without fault; the others have their error
   *  in their place. */
  mode?: SendBatchRequest['mode']
}

/** What is followed, and from where: without `after` and `created_after` from now on. */
export type TailOptions = Omit<ListEventsQuery, 'limit'> & CallOptions

/** The API of a Jetpost. Every method throws JetpostError; its parameters and its answer are in `Operations`, by
 *  operationId.
 *
 *      const jetpost = new Jetpost({ url: 'https://mail.example.com', key: process.env.JETPOST_API_KEY })
 *      const { id } = await jetpost.emails.send({
 *        from: 'ada@example.com',
 *        to: 'grace@example.com',
 *        subject: 'Hello',
 *        text: 'Hello'
 *      })
 */
export class Jetpost extends Caller {
  readonly emails = {
    /** Answers once the email is durably accepted. Safe to repeat: the tries of one call send it once. */
    send: this.method('sendEmail'),
    /** Up to 100 emails in one durable append; answers are in the order of `emails`. Safe to repeat, like `send`. */
    sendBatch: async (
      emails: SendBatchRequest['emails'],
      { mode, ...options }: BatchOptions = {}
    ): Promise<SendBatchAnswer['data']> => (await this.request('sendBatch', { emails, mode }, options)).data,
    /** The email, the state of each recipient, and all that happened. */
    get: (id: string, options?: CallOptions): Promise<Email> => this.request('getEmail', id, {}, options),
    /** The same as it was known at a time, RFC 3339. */
    getAsOf: (id: string, time: string, options?: CallOptions): Promise<Email> =>
      this.request('getEmail', id, { as_of: time }, options),
    /** All emails that the filters find, newest first. */
    list: this.all('listEmails'),
    page: this.method('listEmails'),
    content: this.method('getEmailContent'),
    /** The RFC 5322 message of the `n`th recipient, counted from 0. */
    raw: (id: string, n = 0, options?: CallOptions): Promise<Uint8Array> =>
      this.request('getEmailRaw', id, { recipient: n }, options),
    reschedule: this.method('rescheduleEmail'),
    cancel: this.method('cancelEmail'),
    retry: this.method('retryEmail')
  }

  readonly events = {
    /** All events that the filters find, from `query.after` on, oldest first, until there are no more. */
    list: (query: ListEventsQuery = {}, options?: CallOptions): AsyncGenerator<WebhookEvent, void, void> =>
      this.#listEvents(query, options),
    /** One page, and the cursor to go on from: also when it is empty. */
    page: this.method('listEvents'),
    /** Events as they happen, until `signal` says so. A line that breaks is taken up where it was. */
    tail: ({ signal, ...query }: TailOptions = {}): AsyncGenerator<TailedEvent, void, void> =>
      tail(
        async (cursor, line) =>
          await this.begin('listEvents', [query], {
            accept: 'text/event-stream',
            ...(cursor === null ? {} : { 'last-event-id': cursor })
          }, line),
        signal
      )
  }

  readonly templates = {
    create: this.method('createTemplate'),
    get: this.method('getTemplate'),
    list: this.all('listTemplates'),
    page: this.method('listTemplates'),
    update: this.method('updateTemplate'),
    delete: this.method('deleteTemplate'),
    versions: this.all('listTemplateVersions'),
    versionsPage: this.method('listTemplateVersions'),
    preview: this.method('previewTemplate')
  }

  readonly domains = {
    create: this.method('createDomain'),
    get: this.method('getDomain'),
    list: this.all('listDomains'),
    page: this.method('listDomains'),
    update: this.method('updateDomain'),
    delete: this.method('deleteDomain'),
    verify: this.method('verifyDomain'),
    /** The new keys sign once their records, which it answers, are seen in DNS. */
    rotateDkim: this.method('rotateDomainKeys')
  }

  /** The key that asks: its scopes, domains, limits and end, and the account it belongs to. */
  readonly me = this.method('getMe')

  readonly keys = {
    /** The secret is `key` in the answer, and nowhere else. */
    create: this.method('createKey'),
    get: this.method('getKey'),
    list: this.all('listKeys'),
    page: this.method('listKeys'),
    update: this.method('updateKey'),
    /** It stops everywhere within a second. */
    delete: this.method('deleteKey'),
    rotate: this.method('rotateKey')
  }

  /** The people who sign in to the dashboard. */
  readonly users = {
    create: this.method('createUser'),
    get: this.method('getUser'),
    list: this.all('listUsers'),
    page: this.method('listUsers'),
    update: this.method('updateUser'),
    delete: this.method('deleteUser'),
    /** The link is `url` in the answer, and nowhere else. */
    createLink: this.method('createUserLink')
  }

  /** For operators: the accounts of the installation. */
  readonly accounts = {
    create: this.method('createAccount'),
    get: this.method('getAccount'),
    list: this.all('listAccounts'),
    page: this.method('listAccounts'),
    update: this.method('updateAccount'),
    /** Nothing of it goes out until `resume`. */
    suspend: this.method('suspendAccount'),
    resume: this.method('resumeAccount'),
    /** The secret is `key` in the answer, and nowhere else. */
    createKey: this.method('createAccountKey')
  }

  /** For operators: the ways of outgoing mail. */
  readonly routes = {
    create: this.method('createRoute'),
    get: this.method('getRoute'),
    list: this.all('listRoutes'),
    page: this.method('listRoutes'),
    update: this.method('updateRoute'),
    delete: this.method('deleteRoute')
  }

  /** For operators: the relays that report bounces and complaints. */
  readonly feedbackSources = {
    /** The URL is `url` in the answer, and nowhere else. */
    create: this.method('createFeedbackSource'),
    get: this.method('getFeedbackSource'),
    list: this.all('listFeedbackSources'),
    page: this.method('listFeedbackSources'),
    update: this.method('updateFeedbackSource'),
    delete: this.method('deleteFeedbackSource'),
    /** The one before works for another day. */
    rotate: this.method('rotateFeedbackSource')
  }

  readonly webhooks = {
    /** The signing secret is `secret` in the answer, and nowhere else. */
    create: this.method('createWebhook'),
    get: this.method('getWebhook'),
    list: this.all('listWebhooks'),
    page: this.method('listWebhooks'),
    update: this.method('updateWebhook'),
    delete: this.method('deleteWebhook'),
    rotateSecret: this.method('rotateWebhookSecret'),
    test: this.method('testWebhook'),
    /** What was and is sent to an endpoint, newest first. */
    deliveries: this.all('listWebhookDeliveries'),
    deliveriesPage: this.method('listWebhookDeliveries'),
    /** Sends events of the past again. */
    replay: this.method('createReplay'),
    /** Counts what `replay` would send. */
    countReplay: this.method('countReplay'),
    replays: this.all('listReplays'),
    replaysPage: this.method('listReplays')
  }

  readonly deliveries = {
    /** To all endpoints, newest first. */
    list: this.all('listDeliveries'),
    page: this.method('listDeliveries'),
    /** With its requests, their answers, and the body. */
    get: this.method('getDelivery'),
    /** Sends it again, whatever its state. */
    replay: this.method('replayDelivery')
  }

  readonly replays = {
    get: this.method('getReplay'),
    cancel: this.method('cancelReplay')
  }

  readonly suppressions = {
    create: this.method('createSuppression'),
    get: this.method('getSuppression'),
    list: this.all('listSuppressions'),
    page: this.method('listSuppressions'),
    delete: this.method('deleteSuppression'),
    /** Up to 50,000 at once, as CSV or NDJSON. Safe to repeat. */
    import: this.method('importSuppressions'),
    /** All of them as the bytes of a CSV or NDJSON file, as they come. */
    export: (query: ExportSuppressionsQuery = {}, options?: CallOptions): AsyncGenerator<Uint8Array, void, void> =>
      this.stream('exportSuppressions', query, options)
  }

  readonly erasures = {
    /** Forgets a person: answers when it is durably noted, `get` tells when it is done. */
    create: this.method('createErasure'),
    get: this.method('getErasure'),
    list: this.all('listErasures'),
    page: this.method('listErasures')
  }

  readonly audit = {
    /** Who changed what, newest first. */
    list: this.all('listAudit'),
    page: this.method('listAudit'),
    /** The same as the bytes of a CSV or NDJSON file, as they come. */
    export: (query: ExportAuditQuery = {}, options?: CallOptions): AsyncGenerator<Uint8Array, void, void> =>
      this.stream('exportAudit', query, options)
  }

  readonly stats = {
    /** Counts and rates by hour, day or month. */
    get: this.method('getStats')
  }

  async *#listEvents (query: ListEventsQuery, options?: CallOptions): AsyncGenerator<WebhookEvent, void, void> {
    for (let { after } = query;;) {
      const page = await this.request('listEvents', { ...query, after }, options)
      yield* page.data
      if (!page.has_more) return
      after = page.next_cursor
    }
  }
}
