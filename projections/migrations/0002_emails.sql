-- What was asked. Written once and never changed, so that its indexes (the dear ones: GIN) are paid once an email.
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
  subject text not null,
  tags text[] not null,
  metadata jsonb not null,
  created_at timestamptz not null,
  -- Where the request lies in REQUESTS.
  request_seq bigint not null,
  -- What a substring search looks at: subject, sender and recipients, a line each.
  search text not null
);

create index emails_newest on emails (account, created_at desc, id desc);
create index emails_from on emails (account, lower(from_address), created_at desc, id desc);
create index emails_domain on emails (account, from_domain, created_at desc, id desc);

-- What became of it: the roll-up of its recipients. Apart from emails, because it changes and they do not.
create table email_states (
  id text collate "C" primary key,
  account text collate "C" not null,
  created_at timestamptz not null,
  status text collate "C" not null,
  -- The webhook event types (spec 6.1) that some recipient has had.
  events text[] not null
) with (fillfactor = 80);

create index email_states_status on email_states (account, status, created_at desc, id desc);
create index email_states_bounced on email_states (account, created_at desc, id desc) where events @> '{email.bounced}';

-- A column for each kind of fact; `status` and what goes with it follow the fact with the highest sequence in EMAILS, `status_seq`.
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
  opened_at timestamptz,
  clicked_at timestamptz,
  complained_at timestamptz,
  unsubscribed_at timestamptz,
  next_attempt_at timestamptz,
  -- When somebody should look again if nothing has happened by then: the next attempt, or the end of a claim's lease. Null = nothing to wait for.
  wake_at timestamptz,
  -- The last answer of a server, or why there was none, and the sequence of the fact that told it.
  reply_seq bigint not null,
  smtp_code smallint,
  enhanced_code text,
  response text,
  host text,
  error text,
  primary key (email, n)
) with (fillfactor = 50);

create index recipients_address on recipients (account, lower(address), email);
-- Without the account: the sweep asks for everybody's.
create index recipients_overdue on recipients (wake_at) where wake_at is not null;

-- Every fact of EMAILS, without the webhook's bytes.
create table timeline (
  email text collate "C" not null,
  seq bigint not null,
  n smallint not null,
  id text collate "C" not null,
  type text collate "C" not null,
  time timestamptz not null,
  data jsonb not null,
  primary key (email, seq)
);

-- The account leads in the GIN indexes too, and substrings are found by trigrams, where the server carries these two extensions (contrib,
-- trusted since 13). Where it does not, the same queries run, only slower.
do $$
begin
  create extension if not exists btree_gin;
  create extension if not exists pg_trgm;
  create index emails_tags on emails using gin (account, tags) where tags <> '{}';
  create index emails_metadata on emails using gin (account, metadata jsonb_path_ops) where metadata <> '{}';
  create index emails_search on emails using gin (account, search gin_trgm_ops);
exception when insufficient_privilege or feature_not_supported or undefined_file then
  create index emails_tags on emails using gin (tags) where tags <> '{}';
  create index emails_metadata on emails using gin (metadata jsonb_path_ops) where metadata <> '{}';
end
$$;
