// Made from the OpenAPI document by `npm run client`: what is changed here by hand is lost.

export interface CancelEmailAnswer {
  id: string
  canceled: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
  gone: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
}

export interface CreateDomainRequest {
  /** name is a domain to send from. */
  name: string
}

export interface CreateErasureRequest {
  /** address is a mail address. */
  address: string
}

export interface CreateKeyAnswer {
  /** The secret, shown only here. */
  key: string
  id: string
  name: string
  /** How the secret begins. */
  hint: string
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'templates:read' | 'templates:write' | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write'
    | 'webhooks:read' | 'webhooks:write' | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'dashboard' | 'full'>
  domains: string[]
  test: boolean
  expires_at: string | null
  /** Requests a minute, as the operator has set them. */
  limits: {
    'emails:send': number
    'emails:list': number
    'templates:create': number
    other: number
  }
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  /** Until when the secret before the last rotation works, or null when it works no more. */
  previous_expires_at: string | null
  created_at: string
}

export interface CreateKeyRequest {
  /** name has 1 to 200 characters. */
  name: string
  /** scopes is a list of scopes, or ["full"]. */
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'templates:read' | 'templates:write' | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write'
    | 'webhooks:read' | 'webhooks:write' | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'dashboard' | 'full'>
  /** domains is a list of 1 to 1000 domain names the key may send from, or ["*"] for every domain of the account. */
  domains: string[]
  /** expires_at is a time with its offset, like 2026-11-21T12:00:00Z, or null for never. */
  expires_at?: string | null
  /** track is an object with opens and clicks: whether they are tracked in mail that does not say so itself. */
  track?: {
    /** track.opens is true, false, or null where the domain decides. */
    opens?: boolean | null
    /** track.clicks is true, false, or null where the domain decides. */
    clicks?: boolean | null
  }
  /** unsubscribe is true, false, or null where the domain decides. */
  unsubscribe?: boolean | null
  /** test is true for a key whose mail goes to the built-in catcher only. */
  test?: boolean
}

/** Without a reason it is `manual`; the others are for lists brought along from elsewhere. */
export interface CreateSuppressionRequest {
  /** address is a mail address. */
  address: string
  /** reason is one of bounce, complaint, unsubscribe, manual. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
}

/** One of html and text is required. */
export interface CreateTemplateRequest {
  /** name has 1 to 200 characters. */
  name: string
  /** subject has 1 to 998 characters. */
  subject?: string | null
  /** html is Mustache, at most 256 kB. */
  html?: string | null
  /** text is Mustache, at most 128 kB. */
  text?: string | null
  /** variables is a list of at most 100 declarations. */
  variables?: Array<{
    /** The name of a variable is 1 to 100 letters, digits, _ and -, the first a letter or _. */
    name: string
    /** type is string, number, boolean, object or list. */
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    /** required is true, or false as when left out. */
    required?: boolean
    /** What stands in for the variable where it is not given or null; of its type. null = nothing. */
    fallback?: unknown
  }>
  /** layout_id is the id of a template whose bodies hold {{{content}}}. */
  layout_id?: string | null
}

export interface CreateWebhookAnswer {
  id: string
  url: string
  events: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Events from then on are its. */
  start_at: string
  /** disabled: nothing is sent. A pause is no status. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410; `failing` = it did nothing but fail for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when it has done nothing but fail, once it has for a quarter of an hour; null = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the one before the rotation ceases to. null when none is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
  /** The signing secret, shown now and never again. */
  secret: string
}

export interface CreateWebhookRequest {
  /** url is where events are POSTed to. */
  url: string
  /** events is a list of at least one event type, each once. */
  events: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  /** paused is true or false. While true nothing is sent, and what is owed waits, its 24 hours stopped for up to 24 hours. */
  paused?: boolean
  /** concurrency is the number of requests at once from one webhooks process, 1 to 100, or null for its own choice, 8. */
  concurrency?: number | null
  /** batch is an object with max_events and max_wait_ms, or null for one event a request. */
  batch?: {
    /** batch.max_events is the most events in one request, 1 to 100. */
    max_events: number
    /** batch.max_wait_ms is how long an event may wait for others, in ms, 100 to 60000. */
    max_wait_ms: number
  } | null
  /** every_deferral is true or false. While true each deferral of an email is an event, else only the first is, and how it ends. */
  every_deferral?: boolean
  /** start_at is a time with its offset, like 2026-11-21T12:00:00Z. Events from then on are sent: past ones too, as far back as they are
   *  kept. Now unless told. */
  start_at?: string
}

export interface Domain {
  id: string
  name: string
  status: 'pending' | 'verified' | 'failed'
  records: Array<{
    purpose: 'dkim' | 'return_path' | 'dmarc'
    type: 'TXT' | 'CNAME'
    /** Whole name, without a final dot. */
    name: string
    /** As one string; DNS carries a TXT of more than 255 octets in several. */
    value: string
    /** Whether the domain is not verified without it. */
    required: boolean
    /** While keys are rotated: those of `next` are to be published, and sign once DNS shows them; those of `previous` are to stay until
     *  `removable_at`; what is `removable` may go. */
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
  /** When DNS last showed something new. */
  checked_at: string | null
  /** Since when the records of a verified domain have been wrong; after 72 hours it has failed. */
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
    | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    | 'partial'
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
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
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
    message_id?: string
    stage?: string
    smtp_code?: number | null
    enhanced_code?: string | null
    response?: string | null
    error?: string | null
    host?: string | null
    via?: string
    tls?: {
      version: string
      cipher: string
      verified: boolean
    } | null
    ms?: number
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
    /** A made-up event that was asked for. */
    test?: true
    /** A server's words, its reply or what a bounce mail quotes, wherever there are any. */
    smtp_response?: string
    bounce: {
      /** `hard` = a final no; `soft` = not now, or, with `final`, never within the time there was. */
      type: 'hard' | 'soft'
      /** Why, in a word, such as `userunknown`, `mailboxfull` or `spamdetected`; `expired` when the time was over. */
      class: string
      /** The three digits of the server's reply; null when there was none. */
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
    /** A made-up event that was asked for. */
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
    /** A made-up event that was asked for. */
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
    /** A made-up event that was asked for. */
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
    /** A made-up event that was asked for. */
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
    /** A made-up event that was asked for. */
    test?: true
  }
}

export interface Erasure {
  id: string
  status: 'pending' | 'completed'
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
  remains: Array<{
    what: string
    until: string | null
  }>
}

export interface Key {
  id: string
  name: string
  /** How the secret begins. */
  hint: string
  scopes: Array<
    | 'emails:send' | 'emails:read' | 'templates:read' | 'templates:write' | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write'
    | 'webhooks:read' | 'webhooks:write' | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'dashboard' | 'full'>
  domains: string[]
  test: boolean
  expires_at: string | null
  /** Requests a minute, as the operator has set them. */
  limits: {
    'emails:send': number
    'emails:list': number
    'templates:create': number
    other: number
  }
  track: {
    opens: boolean | null
    clicks: boolean | null
  }
  unsubscribe: boolean | null
  /** Until when the secret before the last rotation works, or null when it works no more. */
  previous_expires_at: string | null
  created_at: string
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
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
      | 'partial'
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
  /** There is more to look at: a page may be short, or empty, and not be the last. */
  has_more: boolean
  /** What to pass as `after` for what comes then; also when there is nothing yet. */
  next_cursor: string
}

export interface ListKeysAnswer {
  data: Key[]
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

export interface ListWebhooksAnswer {
  data: Webhook[]
  has_more: boolean
  next_cursor: string | null
}

export interface PreviewTemplateAnswer {
  version: number
  subject: string | null
  html: string | null
  text: string | null
  missing: string[]
}

export interface PreviewTemplateRequest {
  /** variables is an object of what the template is filled with. */
  variables?: Record<string, unknown>
  /** version is a whole number from 1; left out, the newest. */
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
  /** Of `idempotency_mismatch`: the email that the Idempotency-Key stands for. */
  email_id?: string
  /** The same, where it stands for a batch of several. */
  email_ids?: string[]
  /** Of a change that could be made to none of them: how the recipients stand. */
  recipients?: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
}

export interface RescheduleEmailAnswer {
  id: string
  scheduled_at: string
  rescheduled: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
  gone: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
}

export interface RescheduleEmailRequest {
  /** scheduled_at is a time with its offset, like 2026-11-21T12:00:00Z. */
  scheduled_at: string
}

export interface RetryEmailAnswer {
  id: string
  retried: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
  others: Array<{
    n: number
    address: string
    status:
      | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    /** An earlier copy's fate is not known: it may be there. */
    may_have_arrived?: true
  }>
}

export interface RotateKeyRequest {
  /** overlap_s is a number of seconds from 0 to 604800. */
  overlap_s?: number
}

export interface RotateWebhookSecretAnswer {
  id: string
  url: string
  events: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Events from then on are its. */
  start_at: string
  /** disabled: nothing is sent. A pause is no status. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410; `failing` = it did nothing but fail for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when it has done nothing but fail, once it has for a quarter of an hour; null = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the one before the rotation ceases to. null when none is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
  /** The signing secret, shown now and never again. */
  secret?: string
}

export interface RotateWebhookSecretRequest {
  /** finish is true to end the overlap of the last rotation now. */
  finish?: boolean
}

export interface SendBatchAnswer {
  data: Array<SendEmailAnswer | Problem>
}

export interface SendBatchRequest {
  /** emails is a list of 1 to 100 emails. */
  emails: SendEmailRequest[]
  /** mode is strict (all are accepted or none; the default) or permissive (those without fault are). */
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
  /** from is an address, or a name and an address: "Ada <ada@example.com>". */
  from: string
  /** to is an address or a list of 1 to 50 addresses. */
  to: string | string[]
  /** cc is an address or a list of 0 to 50 addresses. */
  cc?: string | string[]
  /** bcc is an address or a list of 0 to 50 addresses. */
  bcc?: string | string[]
  /** reply_to is an address or a list of 0 to 10 addresses. */
  reply_to?: string | string[]
  /** subject has 1 to 998 characters. Only a template that has one may stand in for it. */
  subject?: string
  /** html is a string of at most 2 MB. */
  html?: string
  /** text is a string of at most 2 MB. */
  text?: string
  /** template_id is the id of a template, which stands in for html and text. */
  template_id?: string
  /** variables is an object of what the template is filled with. */
  variables?: Record<string, unknown>
  /** headers is an object of at most 50 header fields, name to value. */
  headers?: Record<string, string>
  /** attachments is a list of at most 20 files, 10 MB in all. */
  attachments?: Array<{
    /** filename is a string. */
    filename: string
    /** content is the file in base64. */
    content: string
    /** content_type is a media type like image/png. */
    content_type?: string
    /** content_id is the name that html refers to as cid:…. */
    content_id?: string
  }>
  /** tags is a list of at most 20 strings. */
  tags?: string[]
  /** metadata is an object of at most 50 scalar values. */
  metadata?: Record<string, string | number | boolean | null>
  /** scheduled_at is a time with its offset, like 2026-11-21T12:00:00Z. */
  scheduled_at?: string
  /** expires_in is a number of seconds from 300 to 432000. */
  expires_in?: number
  /** track is an object with opens and clicks. */
  track?: {
    /** opens is true or false. */
    opens?: boolean
    /** clicks is true or false. */
    clicks?: boolean
  }
  /** unsubscribe is true or false. */
  unsubscribe?: boolean
  /** on_doubt is retry or hold. */
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
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null where there are none. */
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
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null where there are none. */
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
    /** `opened` of `delivered`. Both count when they happen: in a short stretch of time it may be above 1. Null where there are none. */
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
  /** type is one of email.delivered, email.bounced, email.opened, email.clicked, email.complained, email.unsubscribed. */
  type?: 'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'
}

/** What holds for mail from the domain that does not say it itself. What is left out stays as it is. */
export interface UpdateDomainRequest {
  /** track is an object with opens and clicks: whether they are tracked in mail that does not say so itself. */
  track?: {
    /** track.opens is true, false, or null for no default. */
    opens?: boolean | null
    /** track.clicks is true, false, or null for no default. */
    clicks?: boolean | null
  }
  /** unsubscribe is true, false, or null for no default. */
  unsubscribe?: boolean | null
}

export interface UpdateKeyRequest {
  /** name has 1 to 200 characters. */
  name?: string
  /** scopes is a list of scopes, or ["full"]. */
  scopes?: Array<
    | 'emails:send' | 'emails:read' | 'templates:read' | 'templates:write' | 'domains:read' | 'domains:write' | 'keys:read' | 'keys:write'
    | 'webhooks:read' | 'webhooks:write' | 'suppressions:read' | 'suppressions:write' | 'erasures:write' | 'dashboard' | 'full'>
  /** domains is a list of 1 to 1000 domain names the key may send from, or ["*"] for every domain of the account. */
  domains?: string[]
  /** expires_at is a time with its offset, like 2026-11-21T12:00:00Z, or null for never. */
  expires_at?: string | null
  /** track is an object with opens and clicks: whether they are tracked in mail that does not say so itself. */
  track?: {
    /** track.opens is true, false, or null where the domain decides. */
    opens?: boolean | null
    /** track.clicks is true, false, or null where the domain decides. */
    clicks?: boolean | null
  }
  /** unsubscribe is true, false, or null where the domain decides. */
  unsubscribe?: boolean | null
}

/** What it leaves out stays as it is; null takes a subject, a body or the layout away. */
export interface UpdateTemplateRequest {
  /** name has 1 to 200 characters. */
  name?: string
  /** subject has 1 to 998 characters. */
  subject?: string | null
  /** html is Mustache, at most 256 kB. */
  html?: string | null
  /** text is Mustache, at most 128 kB. */
  text?: string | null
  /** variables is a list of at most 100 declarations. */
  variables?: Array<{
    /** The name of a variable is 1 to 100 letters, digits, _ and -, the first a letter or _. */
    name: string
    /** type is string, number, boolean, object or list. */
    type: 'string' | 'number' | 'boolean' | 'object' | 'list'
    /** required is true, or false as when left out. */
    required?: boolean
    /** What stands in for the variable where it is not given or null; of its type. null = nothing. */
    fallback?: unknown
  }>
  /** layout_id is the id of a template whose bodies hold {{{content}}}. */
  layout_id?: string | null
}

export interface UpdateWebhookRequest {
  /** url is where events are POSTed to. */
  url?: string
  /** events is a list of at least one event type, each once. */
  events?: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  /** paused is true or false. While true nothing is sent, and what is owed waits, its 24 hours stopped for up to 24 hours. */
  paused?: boolean
  /** concurrency is the number of requests at once from one webhooks process, 1 to 100, or null for its own choice, 8. */
  concurrency?: number | null
  /** batch is an object with max_events and max_wait_ms, or null for one event a request. */
  batch?: {
    /** batch.max_events is the most events in one request, 1 to 100. */
    max_events: number
    /** batch.max_wait_ms is how long an event may wait for others, in ms, 100 to 60000. */
    max_wait_ms: number
  } | null
  /** every_deferral is true or false. While true each deferral of an email is an event, else only the first is, and how it ends. */
  every_deferral?: boolean
  /** status can be set to "enabled": an endpoint that was disabled gets events again, from now on. */
  status?: 'enabled'
}

export interface Webhook {
  id: string
  url: string
  events: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  paused: boolean
  concurrency: number | null
  batch: {
    max_events: number
    max_wait_ms: number
  } | null
  every_deferral: boolean
  /** Events from then on are its. */
  start_at: string
  /** disabled: nothing is sent. A pause is no status. */
  status: 'enabled' | 'disabled'
  /** `gone` = it answered 410; `failing` = it did nothing but fail for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /** Since when it has done nothing but fail, once it has for a quarter of an hour; null = it works, as far as is known. */
  failing_since: string | null
  /** While both secrets sign: when the one before the rotation ceases to. null when none is under way. */
  secret_rotation: {
    previous_expires_at: string
  } | null
  created_at: string
}

/** Something that happened to an email, told apart by `type`. */
export type WebhookEvent =
  | EmailDeliveredEvent | EmailBouncedEvent | EmailOpenedEvent | EmailClickedEvent | EmailComplainedEvent | EmailUnsubscribedEvent

export interface ListEmailsQuery {
  /** limit is a number from 1 to 100. */
  limit?: number
  /** cursor is the next_cursor of an earlier answer. */
  cursor?: string
  /** status is one of the states of an email. */
  status?:
    | 'sending' | 'queued' | 'scheduled' | 'deferred' | 'in_doubt' | 'delivered' | 'bounced' | 'failed' | 'suppressed' | 'canceled'
    | 'partial'
  /** to has 1 to 320 characters. */
  to?: string
  /** from has 1 to 320 characters. */
  from?: string
  /** domain has 1 to 253 characters. */
  domain?: string
  /** tag has 1 to 128 characters. */
  tag?: string
  /** template_id has 1 to 100 characters. */
  template_id?: string
  /** metadata is at most 5 filters like metadata[order]=7. */
  metadata?: Record<string, string>
  /** created_after is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_after?: string
  /** created_before is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_before?: string
  /** event is one of the event types. */
  event?:
    | 'email.delivered' | 'delivered' | 'email.bounced' | 'bounced' | 'email.opened' | 'opened' | 'email.clicked' | 'clicked'
    | 'email.complained' | 'complained' | 'email.unsubscribed' | 'unsubscribed'
  /** q has 1 to 200 characters. */
  q?: string
}

export interface GetEmailQuery {
  /** as_of is a time with its offset, like 2026-11-21T12:00:00Z. The answer is then what was known of the email at that moment: what was
   *  recorded up to it, to the millisecond; an email that was asked for later is not there. */
  as_of?: string
}

export interface GetEmailRawQuery {
  /** recipient is the place of a recipient, from 0: each has a message of its own. */
  recipient?: number
}

export interface PageQuery {
  /** limit is a number from 1 to 100. */
  limit?: number
  /** cursor is the next_cursor of an earlier answer. */
  cursor?: string
}

export interface GetTemplateQuery {
  /** version is a whole number from 1; left out, the newest. */
  version?: number
}

export interface ListSuppressionsQuery {
  /** limit is a number from 1 to 100. */
  limit?: number
  /** cursor is the next_cursor of an earlier answer. */
  cursor?: string
  /** reason is one of bounce, complaint, unsubscribe, manual. */
  reason?: 'bounce' | 'complaint' | 'unsubscribe' | 'manual'
  /** address is a mail address. */
  address?: string
  /** created_after is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_after?: string
  /** created_before is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_before?: string
}

export interface GetStatsQuery {
  /** interval is one of hour, day, month. */
  interval?: 'hour' | 'day' | 'month'
  /** from is a time with its offset, like 2026-11-21T12:00:00Z. */
  from?: string
  /** to is a time with its offset, like 2026-11-21T12:00:00Z. */
  to?: string
  /** domain is the name of a domain. */
  domain?: string
  /** tag has 1 to 128 characters. */
  tag?: string
  /** destination is the name of a domain. */
  destination?: string
  /** group_by is one of domain, tag, destination. */
  group_by?: 'domain' | 'tag' | 'destination'
}

export interface ListEventsQuery {
  /** after is the next_cursor of an earlier answer, or the id of an event of a stream. */
  after?: string
  /** limit is a number from 1 to 100. */
  limit?: number
  /** type is an event type, or several: type=email.opened&type=email.clicked. */
  type?: Array<'email.delivered' | 'email.bounced' | 'email.opened' | 'email.clicked' | 'email.complained' | 'email.unsubscribed'>
  /** email_id is the id of an email. */
  email_id?: string
  /** created_after is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_after?: string
  /** created_before is a time with its offset, like 2026-11-21T12:00:00Z. */
  created_before?: string
}
