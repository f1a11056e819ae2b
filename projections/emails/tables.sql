-- What was asked. Written once, so that its indexes (the dear ones: GIN) are paid once an email; again only when a
-- recipient is erased.
create table emails (
  id text collate "C" primary key,
  account text collate "C" not null,
  key text collate "C" not null,
  test boolean not null,
  from_address text not null,
  from_name text,
  from_domain text collate "C" not null,
  -- Mailboxes as they were given, `a@b.c` or `Name <a@b.c>`, so that a list needs no join.
  to_list text[] not null,
  cc_list text[] not null,
  bcc_list text[] not null,
  reply_to_list text[] not null,
  subject text not null,
  -- Names only: [{"name", "value"}] as they were given.
  headers jsonb not null,
  -- Without their bytes: [{"filename", "content_type", "content_id", "size_bytes"}].
  attachments jsonb not null,
  template text collate "C",
  template_version integer,
  track_opens boolean not null,
  track_clicks boolean not null,
  unsubscribe boolean not null,
  tags text[] not null,
  metadata jsonb not null,
  created_at timestamptz not null,
  -- Where the request lies in REQUESTS.
  request_seq bigint not null,
  -- What a substring search looks at: subject, sender and recipients, a line each.
  search text not null,
  -- How many of the recipients are erased: of two words about an email the one that knows of more holds.
  erased smallint not null
);

-- What became of it: the roll-up of its recipients. Apart from emails, because it changes and they do not.
create table email_states (
  id text collate "C" primary key,
  account text collate "C" not null,
  created_at timestamptz not null,
  status text collate "C" not null,
  -- The webhook event types (spec 6.1) that some recipient has had.
  events text[] not null,
  -- As the latest word of its recipients has it.
  scheduled_at timestamptz
) with (fillfactor = 80);

-- A column for each kind of fact; `status` and what goes with it follow the fact with the highest sequence in EMAILS,
-- `status_seq`.
create table recipients (
  email text collate "C" not null,
  n smallint not null,
  account text collate "C" not null,
  address text not null,
  name text,
  -- Null until the request is seen: the streams are read side by side.
  kind text collate "C",
  request_seq bigint not null,
  status text collate "C" not null,
  status_seq bigint not null,
  attempts integer not null,
  attempted_at timestamptz,
  delivered_at timestamptz,
  deferred_at timestamptz,
  bounced_at timestamptz,
  failed_at timestamptz,
  in_doubt_at timestamptz,
  suppressed_at timestamptz,
  canceled_at timestamptz,
  opened_at timestamptz,
  clicked_at timestamptz,
  complained_at timestamptz,
  unsubscribed_at timestamptz,
  next_attempt_at timestamptz,
  -- When somebody should look again if nothing has happened by then: the next attempt, or the end of a claim's lease.
  -- Null = nothing to wait for.
  wake_at timestamptz,
  -- When it is, or was, to be sent, as the request (0) or the last fact that moved it says; -1 = not known yet.
  scheduled_at timestamptz,
  scheduled_seq bigint not null,
  -- The last answer of a server, or why there was none, and the sequence of the fact that told it.
  reply_seq bigint not null,
  smtp_code smallint,
  enhanced_code text,
  response text,
  host text,
  error text,
  -- The person is forgotten: whatever else is told of the recipient, nothing personal comes back.
  erased boolean not null,
  primary key (email, n)
) with (fillfactor = 50);

-- Every fact of a recipient, without the webhook's bytes.
create table timeline (
  email text collate "C" not null,
  seq bigint not null,
  n smallint not null,
  id text collate "C" not null,
  type text collate "C" not null,
  time timestamptz not null,
  data jsonb not null,
  erased boolean not null,
  primary key (email, seq)
);
