// Made from the OpenAPI document by `npm run client`. Do not edit.

export interface Account {
  id: string
  name: string
  /** Requests a minute of all its keys together. `null` = any number. */
  limits: {
    'emails:send': number | null
    'emails:batch': number | null
    'emails:list': number | null
    'templates:create': number | null
    other: number | null
  }
  recipients_per_day: number | null
  suspended: {
    reason: 'abuse' | 'bounces' | 'complaints' | 'billing' | 'other'
    note: string | null
    since: string
    /** Whether Jetpost suspended it, for its bounces or complaints. */
    automatic: boolean
  } | null
  created_at: string
}

export interface CancelEmailAnswer {
  id: string
  canceled: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
  gone: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
}

export interface CountReplayAnswer {
  deliveries: number
  /** More than deliveries where they go out in batches. */
  events: number
  /** Events by type. */
  types: Record<string, number>
  /** False = there may be more: counting takes 8 s and 100,000 deliveries at most. */
  complete: boolean
}

export interface CreateAccountRequest {
  /** A name for people. */
  name: string
  /** Requests a minute of all its keys together, by class. Ten times those of a key where none is set. */
  limits?: {
    'emails:send'?: number
    'emails:batch'?: number
    'emails:list'?: number
    'templates:create'?: number
    other?: number
  }
  /** How many recipients its mail may have on a day (UTC). `null` = any number. */
  recipients_per_day?: number | null
}

export interface CreateDomainRequest {
  /** A domain to send from. */
  name: string
}

export interface CreateErasureRequest {
  /** The address to forget. */
  address: string
}

export interface CreateFeedbackSourceAnswer {
  id: string
  provider: 'ses' | 'mailgun' | 'postmark' | 'sendgrid' | 'brevo' | 'generic'
  name: string
  topic_arn: string | null
  has_verification_key: boolean
  /** Where a report has what, by JSON pointers (RFC 6901); each of the others into one report. */
  mapping: {
    /** To one report, or to a list of them. Left out = the whole body is it. */
    reports?: string
    /** To our Message-ID, or to a return path of ours. */
    message_id: string
    /** To the recipient's address. */
    recipient?: string
    /** To the word that says what happened. */
    kind: string
    /** To the receiving server's words. */
    reason?: string
    /** To the time: RFC 3339, or Unix seconds. */
    time?: string
    /** What each word at `kind` means. Other words mean nothing. */
    kinds: Record<string, 'failed' | 'delayed' | 'delivered' | 'complaint' | 'unsubscribe'>
  } | null
  only_account: string | null
  url_rotation: {
    /** Until then the URL before works, too. */
    previous_expires_at: string
  } | null
  created_at: string
  /** Where the provider posts to. It holds the secret, and is told only here. */
  url: string
}

export interface CreateFeedbackSourceRequest {
  provider: 'ses' | 'mailgun' | 'postmark' | 'sendgrid' | 'brevo' | 'generic'
  /** A name for people. */
  name: string
  /** What its requests are verified with: Mailgun's HTTP webhook signing key, or SendGrid's public key. */
  verification_key?: string | null
  /** The topic of Amazon SNS that reports, for `ses`. */
  topic_arn?: string | null
  /** Where a report has what, by JSON pointers (RFC 6901); each of the others into one report. */
  mapping?: {
    /** To one report, or to a list of them. Left out = the whole body is it. */
    reports?: string
    /** To our Message-ID, or to a return path of ours. */
    message_id: string
    /** To the recipient's address. */
    recipient?: string
    /** To the word that says what happened. */
    kind: string
    /** To the receiving server's words. */
    reason?: string
    /** To the time: RFC 3339, or Unix seconds. */
    time?: string
    /** What each word at `kind` means. Other words mean nothing. */
    kinds: Record<string, 'failed' | 'delayed' | 'delivered' | 'complaint' | 'unsubscribe'>
  } | null
  /** The one account whose mail it may report on. `null` = that of all. */
  only_account?: string | null
}

export interface CreateKeyAnswer {
  /** The secret, shown only here. */
  key: string
  id: string
  name: string
  /** The first characters of the secret. */
  hint: string
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'emails:metadata' | 'emails:list' | 'templates:read' | 'templates:write'
    | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write' | 'webhooks:read' | 'webhooks:write'
    | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'users:read' | 'users:write' | 'audit:read'
    | 'dashboard' | 'operator' | 'full'>
  domains: string[]
  test: boolean
  expires_at: string | null
  /** Requests a minute, by class. The operator sets them. */
  limits: {
    'emails:send': number
    'emails:batch': number
    'emails:list': number
    'templates:create': number
    other: number
  }
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  /** Until when the previous secret works. `null` = it does not. */
  previous_expires_at: string | null
  /** The id of the key that made it, by the API or by a session of the dashboard. `null` = the operator did, or it
   *  is older than this is known. */
  made_by: string | null
  /** When it was last used, by the API or the dashboard, to within five minutes. `null` = not within 400 days, or it
   *  cannot be known now. */
  last_used_at: string | null
  created_at: string
}

export interface CreateKeyRequest {
  /** A name for people. */
  name: string
  /** What the key may do. `["full"]` = everything. Only a live key of the first account with domains `["*"]` can
   *  have `operator`, and only from a key that has it. */
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'emails:metadata' | 'emails:list' | 'templates:read' | 'templates:write'
    | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write' | 'webhooks:read' | 'webhooks:write'
    | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'users:read' | 'users:write' | 'audit:read'
    | 'dashboard' | 'operator' | 'full'>
  /** The domains the key may send from, 1 to 1000. `["*"]` = every domain of the account. */
  domains: string[]
  /** When the key expires. `null` = never. */
  expires_at?: string | null
  /** Defaults for `track` of an email. */
  track?: {
    /** Whether opens are tracked in mail that does not say so. `null` = the domain decides. */
    opens?: boolean | null
    /** Whether clicks are tracked in mail that does not say so. `null` = the domain decides. */
    clicks?: boolean | null
  }
  /** Default for `unsubscribe` of an email. `null` = the domain decides. */
  unsubscribe?: boolean | null
  /** Whether its mail goes to the mail catcher only. False when left out. */
  test?: boolean
}

export interface CreateReplayRequest {
  /** `failed` = deliveries that failed in the span; `all` = every event of the span that it listens to. */
  what: 'failed' | 'all'
  /** Where the span begins. */
  from: string
  /** Where it ends. Now when left out. */
  to?: string
  /** Deliveries a second, 1 to 1000, behind what is new. 100 when left out. */
  pace?: number
}

export interface CreateRouteRequest {
  /** Of a-z, 0-9 and -. It cannot be changed. */
  name: string
  /** The relay, as in SMTP_URL; `direct:` = the MX hosts of each domain. User and password are never shown. */
  url: string
  /** Of the routes that fit, the lowest takes the mail. 100 when left out. */
  position?: number
  /** Which mail it takes: of each list that has entries, one must fit. `{}` = all mail. */
  match?: {
    /** Domains of From. */
    sender_domains?: string[]
    /** Ids of keys. */
    keys?: string[]
    /** Tags of the email. */
    tags?: string[]
    /** Domains of recipients. */
    recipient_domains?: string[]
  }
  /** Names of routes that take its mail, in this order, while it is down. `default` = SMTP_URL. */
  fallbacks?: string[]
  /** Our name in EHLO. `null` = JETPOST_HOSTNAME. */
  hostname?: string | null
  /** The addresses to send from. Empty = the one the system takes. */
  sources?: Array<{
    /** An address of the machine that sends. */
    address: string
    /** Our name in EHLO from there. `null` = the one of the route. */
    hostname?: string | null
    /** Its share beside the others. 1 when left out. */
    weight?: number
    /** Mail with one of these tags is for it. Empty = for mail that no other is for. */
    tags?: string[]
    /** The most mails a day (UTC), over all senders together. What is more takes a fallback, or waits. */
    warm_up?: {
      /** Its first day (UTC). Before it takes no mail. */
      from: string
      /** The most mails of its first day, its second … */
      per_day: number[]
      /** The most a day after those. `null`, or left out = any number. */
      after?: number | null
    } | null
  }>
  /** The most mails a second from one sender. `null` = as fast as it takes them. */
  messages_per_second?: number | null
  /** The most connections from one sender; for `direct:`, to each site. `null` = JETPOST_SMTP_CONNECTIONS. */
  connections?: number | null
  /** The most mails a day (UTC), over all senders together. What is more takes a fallback, or waits. */
  warm_up?: {
    /** Its first day (UTC). Before it takes no mail. */
    from: string
    /** The most mails of its first day, its second … */
    per_day: number[]
    /** The most a day after those. `null`, or left out = any number. */
    after?: number | null
  } | null
}

export interface CreateSuppressionRequest {
  /** The address that gets no more mail. */
  address: string
  /** Why. `manual` when left out; the others are for lists from elsewhere. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
}

export interface CreateTemplateAnswer {
  id: string
  version: number
  name: string
  subject: string | null
  layout_id: string | null
  created_at: string
  updated_at: string
  html: string | null
  text: string | null
  variables: Array<{
    name: string
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    required: boolean
    fallback: unknown
  }>
  /** What looks like a mistake, such as a variable that is not declared. The template is saved. */
  warnings: Array<{
    field: string
    code: 'undeclared_variable' | 'unused_variable' | 'no_partials'
    message: string
  }>
}

/** A template. `html` or `text` is required. */
export interface CreateTemplateRequest {
  /** A name for people. */
  name: string
  /** The subject line, in Mustache. */
  subject?: string | null
  /** The HTML body, in Mustache. At most 256 kB. */
  html?: string | null
  /** The plain-text body, in Mustache. At most 128 kB. */
  text?: string | null
  /** Declared variables. At most 100, 64 kB of JSON. */
  variables?: Array<{
    /** Name of the variable: 1 to 100 letters, digits, `_` and `-`, the first a letter or `_`. */
    name: string
    /** Type of its values. */
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    /** Whether a mail without it is refused. False when left out. */
    required?: boolean
    /** The value where none is given, or null. Of the declared type; null = nothing. */
    fallback?: unknown
  }>
  /** A template whose bodies contain `{{{content}}}`, to put this one into. */
  layout_id?: string | null
}

export interface CreateUserLinkAnswer {
  /** The link, shown only here. */
  url: string
  expires_at: string
}

export interface CreateUserRequest {
  /** The address by which a first sign-in at the issuer is recognised. It cannot be changed later. */
  email: string
  /** What people call the person. */
  name?: string
  /** What the person may do. `operator` only in the first account. */
  role: 'operator' | 'owner' | 'developer' | 'support' | 'viewer'
}

export interface CreateWebhookAnswer {
  id: string
  url: string
  events: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Which events of `email.bounced` it gets: all, without those of deferrals, or only those. */
  bounces: 'all' | 'final' | 'deferred'
  /** Whether it gets events of mail sent with live keys, with test keys, or with both. */
  mode: 'live' | 'test' | 'both'
  /** How events are worded, for good: as Jetpost does, or as Resend does, one event a request. `jetpost` when left
   *  out. */
  format: 'jetpost' | 'resend'
  /** It gets events from then on. */
  start_at: string
  /** `disabled`: nothing is sent. See `paused` too. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410. `failing` = every request failed for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when every request has failed, once that is 15 minutes. `null` = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the previous one stops. `null` = no rotation is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
  /** The signing secret, shown only here. */
  secret: string
}

export interface CreateWebhookRequest {
  /** Where events are POSTed. */
  url: string
  /** The event types it gets. */
  events: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  /** While true nothing is sent: events wait, and their 24 hours of retries stop for up to 24 hours. */
  paused?: boolean
  /** Most requests at once from one process. `null` = 8. */
  concurrency?: number | null
  /** Several events in one request. `null` = one event a request. */
  batch?: {
    /** Most events in one request, 1 to 100. */
    max_events: number
    /** How long an event may wait for others, in ms, 100 to 60000. */
    max_wait_ms: number
  } | null
  /** Whether each deferral of an email is an event, or only the first one and the end. */
  every_deferral?: boolean
  /** Which events of `email.bounced` it gets: all, without those of deferrals, or only those. */
  bounces?: 'all' | 'final' | 'deferred'
  /** Whether it gets events of mail sent with live keys, with test keys, or with both. */
  mode?: 'live' | 'test' | 'both'
  /** How events are worded, for good: as Jetpost does, or as Resend does, one event a request. `jetpost` when left
   *  out. */
  format?: 'jetpost' | 'resend'
  /** Events from then on are sent, also past ones as far back as they are kept. Now when left out. */
  start_at?: string
}

export interface DeleteKeyAnswer {
  /** How many keys ended, this one included. */
  revoked: number
}

export interface DeleteUserAnswer {
  /** How many keys ended. */
  revoked: number
}

export interface Delivery {
  id: string
  webhook_id: string
  state: 'pending' | 'retrying' | 'delivered' | 'failed'
  /** Why it failed without another request. */
  reason: string | null
  /** Of a delivery that waits for its first request: its endpoint is paused, failing, or busy. */
  waits_for: 'paused' | 'failing' | 'busy' | null
  events: Array<{
    id: string
    type:
      | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
      | 'email.unsubscribed'
    email_id: string
  }>
  batch: boolean
  test: boolean
  /** The replay that its state is about; null = its first run. */
  replay_id: string | null
  /** Requests of this run. */
  attempts: number
  last_attempt: {
    /** HTTP status; null = no answer, and `error` says why. */
    status: number | null
    error: string | null
    error_kind: string | null
    duration_ms: number
  } | null
  requested_at: string
  first_attempt_at: string | null
  next_attempt_at: string | null
  ended_at: string | null
  /** Of all its runs, oldest first; the last 100 at most. */
  requests: Array<{
    at: string
    /** From 1 in each run. */
    attempt: number
    replay_id: string | null
    /** HTTP status; null = no answer, and `error` says why. */
    status: number | null
    error: string | null
    error_kind: string | null
    duration_ms: number
    url: string
    headers: Record<string, string>
    /** The first 4,096 bytes of the answer, as text. */
    response: string
  }>
  /** What is POSTed; null = no longer stored. */
  body: string | null
}

export interface Domain {
  id: string
  name: string
  status: 'pending' | 'verified' | 'failed'
  records: Array<{
    purpose: 'dkim' | 'return_path' | 'spf' | 'dmarc'
    type: 'TXT' | 'CNAME'
    /** Full name, without a final dot. */
    name: string
    /** As one string. DNS splits a TXT of more than 255 bytes. */
    value: string
    /** Whether the domain needs it to be verified. */
    required: boolean
    /** While keys are rotated: publish the records of `next`, which sign once DNS shows them; keep those of
     *  `previous` until `removable_at`; delete those that are `removable`. */
    stage: 'current' | 'next' | 'previous' | 'removable'
    removable_at: string | null
    state: 'unchecked' | 'ok' | 'missing' | 'wrong'
    /** What DNS showed, at most 5 records of 500 characters. */
    found: string[]
  }>
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  created_at: string
  /** When DNS last showed a change. */
  checked_at: string | null
  /** Since when the records of a verified domain have been wrong. After 72 hours the domain is `failed`. */
  failing_since: string | null
}

export interface Email {
  id: string
  email_id: string
  from: string
  to: string[]
  cc: string[]
  bcc: string[]
  reply_to: string[]
  subject: string
  status:
    | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed'
    | 'canceled' | 'partial'
  tags: string[]
  metadata: Record<string, string | number | boolean | null>
  template: {
    id: string
    version: number
  } | null
  scheduled_at: string | null
  test: boolean
  key_id: string
  created_at: string
  headers: Array<{
    name: string
    value: string
  }>
  attachments: Array<{
    filename: string
    content_type: string
    content_id: string | null
    size_bytes: number
  }>
  track: {
    opens: boolean
    clicks: boolean
  }
  unsubscribe: boolean
  recipients: Array<{
    n: number
    address: string
    name: string | null
    kind: 'to' | 'cc' | 'bcc'
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    attempts: number
    attempted_at: string | null
    delivered_at: string | null
    deferred_at: string | null
    bounced_at: string | null
    failed_at: string | null
    in_doubt_at: string | null
    suppressed_at: string | null
    canceled_at: string | null
    opened_at: string | null
    clicked_at: string | null
    complained_at: string | null
    unsubscribed_at: string | null
    next_attempt_at: string | null
    last_response: {
      smtp_code: number | null
      enhanced_code: string | null
      response: string | null
      host: string | null
      error: string | null
    } | null
  }>
  timeline: Array<{
    id?: string
    type: string
    time: string
    n?: number
    recipient?: string
    sequence?: number
    attempt?: number
    untried?: boolean
    message_id?: string
    stage?: string
    smtp_code?: number | null
    enhanced_code?: string | null
    response?: string | null
    error?: string | null
    host?: string | null
    address?: string
    via?: string
    plain?: string
    tls?: {
      version: string
      cipher: string
      verified: boolean
    } | null
    ms?: number
    route?: string
    source?: string
    class?: string
    reason?: string
    detail?: string | null
    cause?: string
    held?: boolean
    status?: string | null
    report?: string | null
    url?: string
    machine?: boolean
    feedback?: string
    by?: string
    scheduled_at?: string
    next_attempt_at?: string | null
  }>
}

/** The email was rejected (hard), or put off or given up (soft). */
export interface EmailBouncedEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.bounced'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
    /** A server's words, its reply or what a bounce mail quotes, wherever there are any. */
    smtp_response?: string
    bounce: {
      /** `hard` = a final no; `soft` = not now, or, with `final`, never within the time there was. */
      type: 'hard' | 'soft'
      /** Why, in a word, such as `userunknown`, `mailboxfull` or `spamdetected`; `expired` when the time was over. */
      class: string
      /** The three digits of the server's reply; null when there was none. Of mail that was not tried: of the reply
       *  to another. */
      code: number | null
      /** Status as RFC 3463 has it. */
      enhanced_code: string | null
      /** Nothing more is tried. */
      final: boolean
      next_attempt_at: string | null
      /** In our words, where no server said any. */
      reason: string | null
    }
  }
}

/** A tracked link was followed. */
export interface EmailClickedEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.clicked'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
    click: {
      /** Where the link leads. */
      url: string
    }
    /** By a program, as far as can be told: a proxy, a scanner, a prefetch. */
    machine: boolean
  }
}

/** The recipient marked the email as spam. */
export interface EmailComplainedEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.complained'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
    complaint: {
      /** As RFC 5965 names it: `abuse`, `fraud`, … */
      type: string
    }
  }
}

export interface EmailContent {
  id: string
  subject: string
  html: string | null
  text: string | null
  attachments: Array<{
    filename: string
    content_type: string
    content_id: string | null
    size_bytes: number
  }>
  alternatives: Array<{
    content_type: string
    content: string
  }>
}

/** The recipient's mail server accepted the email. */
export interface EmailDeliveredEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.delivered'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
    /** The words of the server that took it. */
    smtp_response: string
    /** Through the operator's relay, or straight to the recipient's server. */
    via: 'relay' | 'mx'
  }
}

/** The tracking pixel was loaded. */
export interface EmailOpenedEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.opened'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
    /** By a program, as far as can be told: a proxy, a scanner, a prefetch. */
    machine: boolean
  }
}

/** The recipient wants no more mail like it. */
export interface EmailUnsubscribedEvent {
  /** The same on every try of every delivery: what has been seen need not be done again. */
  id: string
  type: 'email.unsubscribed'
  created_at: string
  data: {
    /** Identifier of the email. */
    email_id: string
    /** The sender's bare address. */
    from: string
    /** The bare address of the one recipient that this is about. */
    to: string
    subject: string
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    /** The Message-ID of the mail that this recipient got. */
    message_id: string
    /** The number of what happened among all that happened to this recipient: events may arrive in another order. */
    sequence: number
    /** What the content was made from. */
    template_id: string | null
    /** Of mail sent with a test key, or a made-up event that was asked for. */
    test?: true
  }
}

export interface Erasure {
  id: string
  status: 'pending' | 'completed'
  /** HMAC-SHA-256 of the address under a key of this service, hex: the same for each erasure of it. */
  address_hash: string
  requested_at: string
  completed_at: string | null
  counts: {
    emails: number
    recipients: number
    canceled: number
    suppressions: number
    inbound: number
    messages: number
  }
  /** Where the address was taken out, once it is completed. */
  looked_through: string[]
  remains: Array<{
    what: string
    until: string | null
  }>
}

export interface FeedbackSource {
  id: string
  provider: 'ses' | 'mailgun' | 'postmark' | 'sendgrid' | 'brevo' | 'generic'
  name: string
  topic_arn: string | null
  has_verification_key: boolean
  /** Where a report has what, by JSON pointers (RFC 6901); each of the others into one report. */
  mapping: {
    /** To one report, or to a list of them. Left out = the whole body is it. */
    reports?: string
    /** To our Message-ID, or to a return path of ours. */
    message_id: string
    /** To the recipient's address. */
    recipient?: string
    /** To the word that says what happened. */
    kind: string
    /** To the receiving server's words. */
    reason?: string
    /** To the time: RFC 3339, or Unix seconds. */
    time?: string
    /** What each word at `kind` means. Other words mean nothing. */
    kinds: Record<string, 'failed' | 'delayed' | 'delivered' | 'complaint' | 'unsubscribe'>
  } | null
  only_account: string | null
  url_rotation: {
    /** Until then the URL before works, too. */
    previous_expires_at: string
  } | null
  created_at: string
}

export interface ImportSuppressionsAnswer {
  /** How many lines there were with something in them. */
  lines: number
  /** Lines that suppressed an address, or gave it one more reason. */
  added: number
  /** Lines that said what stood already, or what a line before had said. */
  unchanged: number
  /** Lines that suppressed nothing, and why: all of them. */
  refused: Array<{
    /** Its number in the file, from 1. */
    line: number
    code: string
    message: string
  }>
}

export interface Key {
  id: string
  name: string
  /** The first characters of the secret. */
  hint: string
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'emails:metadata' | 'emails:list' | 'templates:read' | 'templates:write'
    | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write' | 'webhooks:read' | 'webhooks:write'
    | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'users:read' | 'users:write' | 'audit:read'
    | 'dashboard' | 'operator' | 'full'>
  domains: string[]
  test: boolean
  expires_at: string | null
  /** Requests a minute, by class. The operator sets them. */
  limits: {
    'emails:send': number
    'emails:batch': number
    'emails:list': number
    'templates:create': number
    other: number
  }
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  /** Until when the previous secret works. `null` = it does not. */
  previous_expires_at: string | null
  /** The id of the key that made it, by the API or by a session of the dashboard. `null` = the operator did, or it
   *  is older than this is known. */
  made_by: string | null
  /** When it was last used, by the API or the dashboard, to within five minutes. `null` = not within 400 days, or it
   *  cannot be known now. */
  last_used_at: string | null
  created_at: string
}

export interface ListAccountsAnswer {
  data: Account[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListAuditAnswer {
  data: Array<{
    id: string
    at: string
    /** Who did it. `null` = it was done before this was recorded. */
    actor: {
      /** A `key` of the API, a `session` of the dashboard that a key has opened, a `user` in the dashboard, an
       *  `operator` in the shell, or a `role`: Jetpost itself. */
      kind: 'key' | 'session' | 'user' | 'operator' | 'role'
      /** The id of the key, session or user; the operator's user name; the role. */
      id: string
      /** The key that was used, itself or to open the session. */
      key_id: string | null
      /** The session of the dashboard. */
      session_id: string | null
      /** The name of the key or the user; else as `id`. */
      name: string
      /** The client's address. `null` = it came from the machine itself. */
      ip: string | null
    } | null
    action:
      | 'account.created' | 'account.limits_changed' | 'account.quota_changed' | 'account.suspended'
      | 'account.resumed' | 'key.created' | 'key.changed' | 'key.rotated' | 'key.limits_changed' | 'key.revoked'
      | 'domain.added' | 'domain.changed' | 'domain.checked' | 'domain.rotation_started' | 'domain.keys_switched'
      | 'domain.keys_retired' | 'domain.removed' | 'domain.keys_resealed' | 'webhook.created' | 'webhook.changed'
      | 'webhook.secret_rotated' | 'webhook.rotation_finished' | 'webhook.secret_resealed' | 'webhook.enabled'
      | 'webhook.failing' | 'webhook.recovered' | 'webhook.disabled' | 'webhook.deleted' | 'route.created'
      | 'route.changed' | 'route.resealed' | 'route.deleted' | 'feedback_source.created' | 'feedback_source.changed'
      | 'feedback_source.secret_rotated' | 'feedback_source.key_resealed' | 'feedback_source.deleted'
      | 'template.versioned' | 'template.deleted' | 'suppression.added' | 'suppression.removed' | 'user.created'
      | 'user.changed' | 'user.removed' | 'user.linked' | 'user.passkey_added' | 'user.passkey_removed'
      | 'session.link_made' | 'session.opened' | 'session.confirmed' | 'session.ended' | 'erasure.requested'
      | 'rebuild.requested' | 'rebuild.stopped' | 'dead_letters.retried' | 'replay.requested' | 'replay.canceled'
      | 'delivery.replayed'
    /** What was changed. `null` where it is an address. */
    subject_id: string | null
    /** The same for people. It may change: read the other fields in programs. */
    summary: string
  }>
  has_more: boolean
  next_cursor: string | null
}

export interface ListDeliveriesAnswer {
  data: Array<{
    id: string
    webhook_id: string
    state: 'pending' | 'retrying' | 'delivered' | 'failed'
    /** Why it failed without another request. */
    reason: string | null
    /** Of a delivery that waits for its first request: its endpoint is paused, failing, or busy. */
    waits_for: 'paused' | 'failing' | 'busy' | null
    events: Array<{
      id: string
      type:
        | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
        | 'email.unsubscribed'
      email_id: string
    }>
    batch: boolean
    test: boolean
    /** The replay that its state is about; null = its first run. */
    replay_id: string | null
    /** Requests of this run. */
    attempts: number
    last_attempt: {
      /** HTTP status; null = no answer, and `error` says why. */
      status: number | null
      error: string | null
      error_kind: string | null
      duration_ms: number
    } | null
    requested_at: string
    first_attempt_at: string | null
    next_attempt_at: string | null
    ended_at: string | null
  }>
  has_more: boolean
  next_cursor: string | null
}

export interface ListDomainsAnswer {
  data: Domain[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListEmailsAnswer {
  data: Array<{
    id: string
    email_id: string
    from: string
    to: string[]
    cc: string[]
    bcc: string[]
    reply_to: string[]
    subject: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled' | 'partial'
    tags: string[]
    metadata: Record<string, string | number | boolean | null>
    template: {
      id: string
      version: number
    } | null
    scheduled_at: string | null
    test: boolean
    key_id: string
    created_at: string
  }>
  has_more: boolean
  next_cursor: string | null
}

export interface ListErasuresAnswer {
  data: Erasure[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListEventsAnswer {
  data: WebhookEvent[]
  /** Whether there is more: also a short or empty page may not be the last. */
  has_more: boolean
  /** Pass it as `after` for the next page, also when there is nothing yet. */
  next_cursor: string
}

export interface ListFeedbackSourcesAnswer {
  data: FeedbackSource[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListKeysAnswer {
  data: Key[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListReplaysAnswer {
  data: Replay[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListRoutesAnswer {
  data: Route[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListSuppressionsAnswer {
  data: Suppression[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListTemplateVersionsAnswer {
  data: Array<{
    version: number
    name: string
    subject: string | null
    created_at: string
  }>
  has_more: boolean
  next_cursor: string | null
}

export interface ListTemplatesAnswer {
  data: Array<{
    id: string
    version: number
    name: string
    subject: string | null
    layout_id: string | null
    created_at: string
    updated_at: string
  }>
  has_more: boolean
  next_cursor: string | null
}

export interface ListUsersAnswer {
  data: User[]
  has_more: boolean
  next_cursor: string | null
}

export interface ListWebhooksAnswer {
  data: Webhook[]
  has_more: boolean
  next_cursor: string | null
}

export interface Me {
  id: string
  name: string
  /** The first characters of the secret. */
  hint: string
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'emails:metadata' | 'emails:list' | 'templates:read' | 'templates:write'
    | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write' | 'webhooks:read' | 'webhooks:write'
    | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'users:read' | 'users:write' | 'audit:read'
    | 'dashboard' | 'operator' | 'full'>
  domains: string[]
  test: boolean
  expires_at: string | null
  /** Requests a minute, by class. The operator sets them. */
  limits: {
    'emails:send': number
    'emails:batch': number
    'emails:list': number
    'templates:create': number
    other: number
  }
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  /** Until when the previous secret works. `null` = it does not. */
  previous_expires_at: string | null
  /** The id of the key that made it, by the API or by a session of the dashboard. `null` = the operator did, or it
   *  is older than this is known. */
  made_by: string | null
  /** When it was last used, by the API or the dashboard, to within five minutes. `null` = not within 400 days, or it
   *  cannot be known now. */
  last_used_at: string | null
  created_at: string
  account: {
    id: string
    name: string
    /** Requests a minute of all its keys together; null = any number. */
    limits: {
      'emails:send': number | null
      'emails:batch': number | null
      'emails:list': number | null
      'templates:create': number | null
      other: number | null
    }
    /** How many recipients its mail may have on a day (UTC); null = any number. */
    recipients_per_day: number | null
    /** How many it has had today; null where there is no such limit. */
    recipients_today: number | null
  }
}

export interface PreviewTemplateAnswer {
  version: number
  subject: string | null
  html: string | null
  text: string | null
  missing: string[]
  unknown: string[]
}

export interface PreviewTemplateRequest {
  /** The values that fill the template, by name. */
  variables?: Record<string, unknown>
  /** Which version. The newest when left out. */
  version?: number
}

export interface Problem {
  error: string
  code?: string
  details?: Array<{
    field: string
    code: string
    message: string
  }>
  /** With `idempotency_mismatch`: the email that was accepted under the Idempotency-Key. With `acceptance_unknown`:
   *  the email that may have been accepted. */
  email_id?: string
  /** With `idempotency_mismatch`: the emails of the batch that was accepted. With `acceptance_unknown`: those that
   *  may have been accepted. */
  email_ids?: string[]
  /** When no recipient could be changed: the status of each. */
  recipients?: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
}

export interface Replay {
  id: string
  webhook_id: string
  /** `backfill` = events from before the endpoint was created, by its `start_at`. */
  what: 'failed' | 'all' | 'backfill'
  from: string
  to: string
  pace: number
  /** Deliveries so far; not all of them are sent yet. */
  requested: number
  /** `running`, `done`, `canceled`, `endpoint_deleted` or `endpoint_disabled`. */
  state: string
  /** What it waits for, while it does for longer. */
  waits_for: string | null
  /** When it last requested deliveries, or ended. */
  changed_at: string
}

export interface ReplayDeliveryAnswer {
  id: string
  webhook_id: string
  replay_id: string
}

export interface RescheduleEmailAnswer {
  id: string
  scheduled_at: string
  rescheduled: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
  gone: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
}

export interface RescheduleEmailRequest {
  /** When to send instead. */
  scheduled_at: string
}

export interface RetryEmailAnswer {
  id: string
  retried: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
  others: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed'
      | 'suppressed' | 'canceled'
    /** Whether an earlier copy arrived is not known. */
    may_have_arrived?: true
  }>
}

export interface RotateKeyRequest {
  /** Seconds that the previous secret keeps working. 86400 when left out; 0 = none. */
  overlap_s?: number
}

export interface RotateWebhookSecretAnswer {
  id: string
  url: string
  events: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Which events of `email.bounced` it gets: all, without those of deferrals, or only those. */
  bounces: 'all' | 'final' | 'deferred'
  /** Whether it gets events of mail sent with live keys, with test keys, or with both. */
  mode: 'live' | 'test' | 'both'
  /** How events are worded, for good: as Jetpost does, or as Resend does, one event a request. `jetpost` when left
   *  out. */
  format: 'jetpost' | 'resend'
  /** It gets events from then on. */
  start_at: string
  /** `disabled`: nothing is sent. See `paused` too. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410. `failing` = every request failed for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when every request has failed, once that is 15 minutes. `null` = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the previous one stops. `null` = no rotation is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
  /** The signing secret, shown only here. */
  secret?: string
}

export interface RotateWebhookSecretRequest {
  /** True ends the overlap of the last rotation, without a new one. */
  finish?: boolean
}

export interface Route {
  id: string
  name: string
  /** Without user and password. */
  url: string
  /** Whether it logs in with a user and a password. */
  has_credentials: boolean
  position: number
  match: {
    sender_domains: string[]
    keys: string[]
    tags: string[]
    recipient_domains: string[]
  }
  fallbacks: string[]
  hostname: string | null
  sources: Array<{
    address: string
    hostname: string | null
    weight: number
    tags: string[]
    warm_up: {
      from: string
      per_day: number[]
      after: number | null
    } | null
  }>
  messages_per_second: number | null
  connections: number | null
  warm_up: {
    from: string
    per_day: number[]
    after: number | null
  } | null
  created_at: string
}

export interface SendBatchAnswer {
  data: Array<SendEmailAnswer | Problem>
}

export interface SendBatchRequest {
  /** The emails, 1 to 100. */
  emails: SendEmailRequest[]
  /** `strict`: all emails are accepted, or none. `permissive`: those without faults are. `strict` when left out. */
  mode?: 'strict' | 'permissive'
}

export interface SendEmailAnswer {
  id: string
  email_id: string
  status: 'queued' | 'scheduled' | 'suppressed'
  created_at: string
  suppressed?: string[]
}

export interface SendEmailRequest {
  /** The sender: an address, or a name and an address: `Ada <ada@example.com>`. */
  from: string
  /** The recipients: one address or a list. At most 50 with `cc` and `bcc`. */
  to: string | string[]
  /** Recipients of a copy. */
  cc?: string | string[]
  /** Recipients of a copy whom the others do not see. */
  bcc?: string | string[]
  /** Where replies go: one address or up to 10. */
  reply_to?: string | string[]
  /** The subject line. Required, unless the template has one; replaces the template's. */
  subject?: string
  /** The HTML body. At most 2 MB. */
  html?: string
  /** The plain-text body. At most 2 MB. */
  text?: string
  /** A template, which replaces `html` and `text`. */
  template_id?: string
  /** The values that fill the template, by name. */
  variables?: Record<string, unknown>
  /** Your own headers, name to value. At most 50. */
  headers?: Record<string, string>
  /** Files to attach. At most 20, 10 MB decoded in all. */
  attachments?: Array<{
    /** Name of the file, without a path. At most 255 characters. */
    filename: string
    /** The file in standard base64. */
    content: string
    /** Media type, such as `image/png`. Left out, it is guessed from the extension. */
    content_type?: string
    /** The name by which `html` shows the file: `<img src="cid:…">`. */
    content_id?: string
  }>
  /** Further forms of the body, after `html`, such as an invitation. At most 3. */
  alternatives?: Array<{
    /** A text type, such as `text/calendar; method=REQUEST`, but for plain text and HTML. It is sent as UTF-8. */
    content_type: string
    /** The text. At most 256 kB. */
    content: string
  }>
  /** Labels to filter and count by. They do not go into the mail. */
  tags?: string[]
  /** Your own data, which webhooks carry. At most 50 values, 8 kB of JSON. It does not go into the mail. */
  metadata?: Record<string, string | number | boolean | null>
  /** When to send. At once when left out. */
  scheduled_at?: string
  /** Seconds in which a server must accept the mail. 72 hours when left out. */
  expires_in?: number
  /** What is tracked. What is left out, the key or the domain decides. */
  track?: {
    /** Whether a pixel reports opens. */
    opens?: boolean
    /** Whether links report clicks. */
    clicks?: boolean
  }
  /** Whether recipients can unsubscribe by List-Unsubscribe. Left out, the key or the domain decides. */
  unsubscribe?: boolean
  /** What to do when the connection broke before the server answered: send again, or hold for a person. `retry` when
   *  left out. */
  on_doubt?: 'retry' | 'hold'
}

export interface Stats {
  interval: string
  /** Where the first bucket begins. */
  from: string
  /** Where the last bucket ends. */
  to: string
  totals: {
    /** Asked for: recipients of the emails that were accepted. */
    accepted: number
    /** Not sent, since the address is suppressed. */
    suppressed: number
    /** Called off before they were sent. */
    canceled: number
    /** Accepted by their mail server. */
    delivered: number
    /** Put off at least once. */
    deferred: number
    /** Rejected for good, at once or by a mail that came back later. */
    bounced: number
    /** Given up: no server gave a final answer in time. */
    failed: number
    /** Opened by a person; the first time counts. */
    opened: number
    /** A link followed by a person; the first time counts. */
    clicked: number
    /** Marked as spam. */
    complained: number
    /** Unsubscribed. */
    unsubscribed: number
    /** `delivered` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    delivery_rate: number | null
    /** `bounced` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    bounce_rate: number | null
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null
     *  where there are none. */
    open_rate: number | null
    /** `clicked` of `delivered`. Null where there are none. */
    click_rate: number | null
    /** `complained` of `delivered`. Null where there are none. */
    complaint_rate: number | null
    /** `unsubscribed` of `delivered`. Null where there are none. */
    unsubscribe_rate: number | null
  }
  /** Oldest first, those without mail as well. */
  buckets: Array<{
    /** A bucket lasts until the next one starts. */
    start: string
    /** Asked for: recipients of the emails that were accepted. */
    accepted: number
    /** Not sent, since the address is suppressed. */
    suppressed: number
    /** Called off before they were sent. */
    canceled: number
    /** Accepted by their mail server. */
    delivered: number
    /** Put off at least once. */
    deferred: number
    /** Rejected for good, at once or by a mail that came back later. */
    bounced: number
    /** Given up: no server gave a final answer in time. */
    failed: number
    /** Opened by a person; the first time counts. */
    opened: number
    /** A link followed by a person; the first time counts. */
    clicked: number
    /** Marked as spam. */
    complained: number
    /** Unsubscribed. */
    unsubscribed: number
    /** `delivered` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    delivery_rate: number | null
    /** `bounced` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    bounce_rate: number | null
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null
     *  where there are none. */
    open_rate: number | null
    /** `clicked` of `delivered`. Null where there are none. */
    click_rate: number | null
    /** `complained` of `delivered`. Null where there are none. */
    complaint_rate: number | null
    /** `unsubscribed` of `delivered`. Null where there are none. */
    unsubscribe_rate: number | null
  }>
  /** With `group_by`: what each comes to in the whole time, at most the 100 of which most was accepted. */
  groups?: Array<{
    name: string
    /** Asked for: recipients of the emails that were accepted. */
    accepted: number
    /** Not sent, since the address is suppressed. */
    suppressed: number
    /** Called off before they were sent. */
    canceled: number
    /** Accepted by their mail server. */
    delivered: number
    /** Put off at least once. */
    deferred: number
    /** Rejected for good, at once or by a mail that came back later. */
    bounced: number
    /** Given up: no server gave a final answer in time. */
    failed: number
    /** Opened by a person; the first time counts. */
    opened: number
    /** A link followed by a person; the first time counts. */
    clicked: number
    /** Marked as spam. */
    complained: number
    /** Unsubscribed. */
    unsubscribed: number
    /** `delivered` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    delivery_rate: number | null
    /** `bounced` of those that were settled: `delivered` + `bounced` + `failed`. Null where there are none. */
    bounce_rate: number | null
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null
     *  where there are none. */
    open_rate: number | null
    /** `clicked` of `delivered`. Null where there are none. */
    click_rate: number | null
    /** `complained` of `delivered`. Null where there are none. */
    complaint_rate: number | null
    /** `unsubscribed` of `delivered`. Null where there are none. */
    unsubscribe_rate: number | null
  }>
}

export interface Suppression {
  /** As it was first given; null when it has been erased. */
  address: string | null
  /** Oldest first. An `unsubscribe` alone holds back only mail sent with `unsubscribe: true`. */
  reasons: Array<{
    reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
    /** The email that told. */
    email_id: string | null
    since: string
  }>
  created_at: string
}

export interface SuspendAccountRequest {
  reason: 'abuse' | 'bounces' | 'complaints' | 'billing' | 'other'
  /** For operators: the account is not told it. */
  note?: string
}

export interface Template {
  id: string
  version: number
  name: string
  subject: string | null
  layout_id: string | null
  created_at: string
  updated_at: string
  html: string | null
  text: string | null
  variables: Array<{
    name: string
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    required: boolean
    fallback: unknown
  }>
}

export interface TestWebhookAnswer {
  /** The event's id. */
  id: string
  delivery_id: string
}

export interface TestWebhookRequest {
  /** Type of the event. The first one the endpoint subscribes to when left out. */
  type?:
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'
}

export interface UpdateAccountRequest {
  /** Requests a minute of all its keys together, by class. Ten times those of a key where none is set. */
  limits?: {
    'emails:send'?: number
    'emails:batch'?: number
    'emails:list'?: number
    'templates:create'?: number
    other?: number
  }
  /** How many recipients its mail may have on a day (UTC). `null` = any number. */
  recipients_per_day?: number | null
}

/** Defaults for mail from the domain. What is left out stays. */
export interface UpdateDomainRequest {
  /** Defaults for `track` of an email. */
  track?: {
    /** Whether opens are tracked in mail that does not say so. `null` = no default. */
    opens?: boolean | null
    /** Whether clicks are tracked in mail that does not say so. `null` = no default. */
    clicks?: boolean | null
  }
  /** Default for `unsubscribe` of an email. `null` = no default. */
  unsubscribe?: boolean | null
}

export interface UpdateFeedbackSourceRequest {
  /** A name for people. */
  name?: string
  /** What its requests are verified with: Mailgun's HTTP webhook signing key, or SendGrid's public key. */
  verification_key?: string | null
  /** The topic of Amazon SNS that reports, for `ses`. */
  topic_arn?: string | null
  /** Where a report has what, by JSON pointers (RFC 6901); each of the others into one report. */
  mapping?: {
    /** To one report, or to a list of them. Left out = the whole body is it. */
    reports?: string
    /** To our Message-ID, or to a return path of ours. */
    message_id: string
    /** To the recipient's address. */
    recipient?: string
    /** To the word that says what happened. */
    kind: string
    /** To the receiving server's words. */
    reason?: string
    /** To the time: RFC 3339, or Unix seconds. */
    time?: string
    /** What each word at `kind` means. Other words mean nothing. */
    kinds: Record<string, 'failed' | 'delayed' | 'delivered' | 'complaint' | 'unsubscribe'>
  } | null
}

export interface UpdateKeyRequest {
  /** A name for people. */
  name?: string
  /** What the key may do. `["full"]` = everything. Only a live key of the first account with domains `["*"]` can
   *  have `operator`, and only from a key that has it. */
  scopes?: Array<
    | 'emails:send' | 'emails:read' | 'emails:metadata' | 'emails:list' | 'templates:read' | 'templates:write'
    | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write' | 'webhooks:read' | 'webhooks:write'
    | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'users:read' | 'users:write' | 'audit:read'
    | 'dashboard' | 'operator' | 'full'>
  /** The domains the key may send from, 1 to 1000. `["*"]` = every domain of the account. */
  domains?: string[]
  /** When the key expires. `null` = never. */
  expires_at?: string | null
  /** Defaults for `track` of an email. */
  track?: {
    /** Whether opens are tracked in mail that does not say so. `null` = the domain decides. */
    opens?: boolean | null
    /** Whether clicks are tracked in mail that does not say so. `null` = the domain decides. */
    clicks?: boolean | null
  }
  /** Default for `unsubscribe` of an email. `null` = the domain decides. */
  unsubscribe?: boolean | null
}

export interface UpdateRouteRequest {
  /** The relay, as in SMTP_URL; `direct:` = the MX hosts of each domain. User and password are never shown. */
  url?: string
  /** Of the routes that fit, the lowest takes the mail. 100 when left out. */
  position?: number
  /** Which mail it takes: of each list that has entries, one must fit. `{}` = all mail. */
  match?: {
    /** Domains of From. */
    sender_domains?: string[]
    /** Ids of keys. */
    keys?: string[]
    /** Tags of the email. */
    tags?: string[]
    /** Domains of recipients. */
    recipient_domains?: string[]
  }
  /** Names of routes that take its mail, in this order, while it is down. `default` = SMTP_URL. */
  fallbacks?: string[]
  /** Our name in EHLO. `null` = JETPOST_HOSTNAME. */
  hostname?: string | null
  /** The addresses to send from. Empty = the one the system takes. */
  sources?: Array<{
    /** An address of the machine that sends. */
    address: string
    /** Our name in EHLO from there. `null` = the one of the route. */
    hostname?: string | null
    /** Its share beside the others. 1 when left out. */
    weight?: number
    /** Mail with one of these tags is for it. Empty = for mail that no other is for. */
    tags?: string[]
    /** The most mails a day (UTC), over all senders together. What is more takes a fallback, or waits. */
    warm_up?: {
      /** Its first day (UTC). Before it takes no mail. */
      from: string
      /** The most mails of its first day, its second … */
      per_day: number[]
      /** The most a day after those. `null`, or left out = any number. */
      after?: number | null
    } | null
  }>
  /** The most mails a second from one sender. `null` = as fast as it takes them. */
  messages_per_second?: number | null
  /** The most connections from one sender; for `direct:`, to each site. `null` = JETPOST_SMTP_CONNECTIONS. */
  connections?: number | null
  /** The most mails a day (UTC), over all senders together. What is more takes a fallback, or waits. */
  warm_up?: {
    /** Its first day (UTC). Before it takes no mail. */
    from: string
    /** The most mails of its first day, its second … */
    per_day: number[]
    /** The most a day after those. `null`, or left out = any number. */
    after?: number | null
  } | null
}

/** What to change. What is left out stays; null removes a subject, a body or the layout. */
export interface UpdateTemplateRequest {
  /** A name for people. */
  name?: string
  /** The subject line, in Mustache. */
  subject?: string | null
  /** The HTML body, in Mustache. At most 256 kB. */
  html?: string | null
  /** The plain-text body, in Mustache. At most 128 kB. */
  text?: string | null
  /** Declared variables. At most 100, 64 kB of JSON. */
  variables?: Array<{
    /** Name of the variable: 1 to 100 letters, digits, `_` and `-`, the first a letter or `_`. */
    name: string
    /** Type of its values. */
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    /** Whether a mail without it is refused. False when left out. */
    required?: boolean
    /** The value where none is given, or null. Of the declared type; null = nothing. */
    fallback?: unknown
  }>
  /** A template whose bodies contain `{{{content}}}`, to put this one into. */
  layout_id?: string | null
}

export interface UpdateUserRequest {
  /** What people call the person. */
  name?: string
  /** What the person may do. `operator` only in the first account. */
  role?: 'operator' | 'owner' | 'developer' | 'support' | 'viewer'
}

export interface UpdateWebhookRequest {
  /** Where events are POSTed. */
  url?: string
  /** The event types it gets. */
  events?: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  /** While true nothing is sent: events wait, and their 24 hours of retries stop for up to 24 hours. */
  paused?: boolean
  /** Most requests at once from one process. `null` = 8. */
  concurrency?: number | null
  /** Several events in one request. `null` = one event a request. */
  batch?: {
    /** Most events in one request, 1 to 100. */
    max_events: number
    /** How long an event may wait for others, in ms, 100 to 60000. */
    max_wait_ms: number
  } | null
  /** Whether each deferral of an email is an event, or only the first one and the end. */
  every_deferral?: boolean
  /** Which events of `email.bounced` it gets: all, without those of deferrals, or only those. */
  bounces?: 'all' | 'final' | 'deferred'
  /** Whether it gets events of mail sent with live keys, with test keys, or with both. */
  mode?: 'live' | 'test' | 'both'
  /** Enables an endpoint that was disabled: it gets events from now on. */
  status?: 'enabled'
}

export interface User {
  id: string
  email: string
  name: string
  /** What the person may do. `operator` only in the first account. */
  role: 'operator' | 'owner' | 'developer' | 'support' | 'viewer'
  /** Where the person has signed in by OpenID Connect. `null` = nowhere. */
  issuer: string | null
  /** How many passkeys the person has. */
  passkeys: number
  /** When the person last used the dashboard, to within five minutes. `null` = not within 400 days, or it cannot be
   *  known now. */
  last_seen_at: string | null
  created_at: string
}

export interface Webhook {
  id: string
  url: string
  events: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Which events of `email.bounced` it gets: all, without those of deferrals, or only those. */
  bounces: 'all' | 'final' | 'deferred'
  /** Whether it gets events of mail sent with live keys, with test keys, or with both. */
  mode: 'live' | 'test' | 'both'
  /** How events are worded, for good: as Jetpost does, or as Resend does, one event a request. `jetpost` when left
   *  out. */
  format: 'jetpost' | 'resend'
  /** It gets events from then on. */
  start_at: string
  /** `disabled`: nothing is sent. See `paused` too. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410. `failing` = every request failed for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when every request has failed, once that is 15 minutes. `null` = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the previous one stops. `null` = no rotation is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
}

/** Something that happened to an email, told apart by `type`. */
export type WebhookEvent =
  | EmailDeliveredEvent | EmailBouncedEvent | EmailOpenedEvent | EmailClickedEvent | EmailComplainedEvent
  | EmailUnsubscribedEvent

export interface ListEmailsQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
  /** Status of the email, or several of which it has one: `status=bounced&status=failed`. */
  status?: Array<
    | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed'
    | 'canceled' | 'partial'>
  /** Address of a recipient. */
  to?: string
  /** Address of the sender. */
  from?: string
  /** Domain of the sender. */
  domain?: string
  /** One of its tags, or several of which it has at least one: `tag=receipt&tag=invoice`. */
  tag?: string[]
  /** The template it was made from. */
  template_id?: string
  /** Values of `metadata`, by name: `metadata[order]=7`. At most 5. */
  metadata?: Record<string, string>
  /** Created then or later. */
  created_after?: string
  /** Created before then. */
  created_before?: string
  /** An event of it, with or without `email.`, or several of which it has at least one. */
  event?: Array<
    | 'email.delivered' | 'delivered' | 'email.bounced' | 'bounced' | 'email.opened' | 'opened' | 'email.clicked'
    | 'clicked' | 'email.complained' | 'complained' | 'email.unsubscribed' | 'unsubscribed'>
  /** Text in subject, sender or recipients. */
  q?: string
}

export interface GetEmailQuery {
  /** Answers with what was known of the email at this time, to the millisecond. 404 when the email was sent later. */
  as_of?: string
}

export interface GetEmailRawQuery {
  /** Which recipient, counted from 0 in `recipients`: each gets a message of its own. 0 when left out. */
  recipient?: number
}

export interface PageQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
}

export interface GetTemplateQuery {
  /** Which version. The newest when left out. */
  version?: number
}

export interface DeleteKeyQuery {
  /** Whether the keys it has made end too, and those that they have made. */
  with_children?: boolean
}

export interface DeleteUserQuery {
  /** Whether the keys that the person has made end too, and those that these have made. */
  with_keys?: boolean
}

export interface ListDeliveriesQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
  state?: 'pending' | 'retrying' | 'delivered' | 'failed'
  error_kind?: 'timeout' | 'dns' | 'connect' | 'tls' | 'reset' | 'protocol' | 'refused' | 'unsigned' | 'other'
  event_id?: string
  email_id?: string
  /** Requested then or later. */
  created_after?: string
  /** Requested before then. */
  created_before?: string
  webhook_id?: string
}

export interface ListWebhookDeliveriesQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
  state?: 'pending' | 'retrying' | 'delivered' | 'failed'
  error_kind?: 'timeout' | 'dns' | 'connect' | 'tls' | 'reset' | 'protocol' | 'refused' | 'unsigned' | 'other'
  event_id?: string
  email_id?: string
  /** Requested then or later. */
  created_after?: string
  /** Requested before then. */
  created_before?: string
}

export interface ListSuppressionsQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
  /** Suppressed for this reason. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
  /** This address. */
  address?: string
  /** Suppressed then or later. */
  created_after?: string
  /** Suppressed before then. */
  created_before?: string
}

export interface ExportSuppressionsQuery {
  /** `csv` when left out. */
  format?: 'csv' | 'ndjson'
  /** Suppressed for this reason. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
  /** Suppressed then or later. */
  created_after?: string
  /** Suppressed before then. */
  created_before?: string
}

export interface ListAuditQuery {
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** The `next_cursor` of the page before. */
  cursor?: string
  /** Done by this key, also in the dashboard's sessions opened with it; or by this user, session, operator or role. */
  actor?: string
  /** This action. */
  action?:
    | 'account.created' | 'account.limits_changed' | 'account.quota_changed' | 'account.suspended' | 'account.resumed'
    | 'key.created' | 'key.changed' | 'key.rotated' | 'key.limits_changed' | 'key.revoked' | 'domain.added'
    | 'domain.changed' | 'domain.checked' | 'domain.rotation_started' | 'domain.keys_switched' | 'domain.keys_retired'
    | 'domain.removed' | 'domain.keys_resealed' | 'webhook.created' | 'webhook.changed' | 'webhook.secret_rotated'
    | 'webhook.rotation_finished' | 'webhook.secret_resealed' | 'webhook.enabled' | 'webhook.failing'
    | 'webhook.recovered' | 'webhook.disabled' | 'webhook.deleted' | 'route.created' | 'route.changed'
    | 'route.resealed' | 'route.deleted' | 'feedback_source.created' | 'feedback_source.changed'
    | 'feedback_source.secret_rotated' | 'feedback_source.key_resealed' | 'feedback_source.deleted'
    | 'template.versioned' | 'template.deleted' | 'suppression.added' | 'suppression.removed' | 'user.created'
    | 'user.changed' | 'user.removed' | 'user.linked' | 'user.passkey_added' | 'user.passkey_removed'
    | 'session.link_made' | 'session.opened' | 'session.confirmed' | 'session.ended' | 'erasure.requested'
    | 'rebuild.requested' | 'rebuild.stopped' | 'dead_letters.retried' | 'replay.requested' | 'replay.canceled'
    | 'delivery.replayed'
  /** Done then or later. */
  from?: string
  /** Done before then. */
  to?: string
}

export interface ExportAuditQuery {
  /** `csv` when left out. */
  format?: 'csv' | 'ndjson'
  /** Done by this key, also in the dashboard's sessions opened with it; or by this user, session, operator or role. */
  actor?: string
  /** This action. */
  action?:
    | 'account.created' | 'account.limits_changed' | 'account.quota_changed' | 'account.suspended' | 'account.resumed'
    | 'key.created' | 'key.changed' | 'key.rotated' | 'key.limits_changed' | 'key.revoked' | 'domain.added'
    | 'domain.changed' | 'domain.checked' | 'domain.rotation_started' | 'domain.keys_switched' | 'domain.keys_retired'
    | 'domain.removed' | 'domain.keys_resealed' | 'webhook.created' | 'webhook.changed' | 'webhook.secret_rotated'
    | 'webhook.rotation_finished' | 'webhook.secret_resealed' | 'webhook.enabled' | 'webhook.failing'
    | 'webhook.recovered' | 'webhook.disabled' | 'webhook.deleted' | 'route.created' | 'route.changed'
    | 'route.resealed' | 'route.deleted' | 'feedback_source.created' | 'feedback_source.changed'
    | 'feedback_source.secret_rotated' | 'feedback_source.key_resealed' | 'feedback_source.deleted'
    | 'template.versioned' | 'template.deleted' | 'suppression.added' | 'suppression.removed' | 'user.created'
    | 'user.changed' | 'user.removed' | 'user.linked' | 'user.passkey_added' | 'user.passkey_removed'
    | 'session.link_made' | 'session.opened' | 'session.confirmed' | 'session.ended' | 'erasure.requested'
    | 'rebuild.requested' | 'rebuild.stopped' | 'dead_letters.retried' | 'replay.requested' | 'replay.canceled'
    | 'delivery.replayed'
  /** Done then or later. */
  from?: string
  /** Done before then. */
  to?: string
}

export interface GetStatsQuery {
  /** Length of a bucket. `day` when left out. */
  interval?: 'hour' | 'day' | 'month'
  /** Start of the first bucket; rounded down. The last 24 hours, 30 days or 12 months when left out. */
  from?: string
  /** End of the last bucket; rounded up. Now when left out. */
  to?: string
  /** Domain of the sender. */
  domain?: string
  /** One of the tags. */
  tag?: string
  /** Domain of the recipient. */
  destination?: string
  /** Also lists totals by these. At most 100. */
  group_by?: 'domain' | 'tag' | 'destination'
}

export interface ListEventsQuery {
  /** List what comes after this: a `next_cursor`, or the id of an event of a stream. */
  after?: string
  /** How many to list, 1 to 100. 25 when left out. */
  limit?: number
  /** Event types: `type=email.opened&type=email.clicked`. */
  type?: Array<
    | 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained'
    | 'email.unsubscribed'>
  /** Events of this email. */
  email_id?: string
  /** Created then or later. */
  created_after?: string
  /** Created before then. */
  created_before?: string
}

export interface ImportSuppressionsQuery {
  /** Of all lines: what they say themselves is not read. Left out, each line may say it, else `manual`. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
}
