-- What is owed to one endpoint, in one request.
create table deliveries (
  id text collate "C" primary key,
  account text collate "C" not null,
  webhook text collate "C" not null,
  -- Its event, when it is one: `event_seq` is where its bytes lie in EMAILS, 0 = a test event.
  event text collate "C",
  event_type text collate "C",
  event_seq bigint,
  email text collate "C",
  -- Its events, when they are more, oldest first. One or the other: an array costs several times what a column does, and most are one.
  events text[] collate "C",
  event_types text[] collate "C",
  event_seqs bigint[],
  emails text[] collate "C",
  -- The first fact known of it, and its time.
  first_seq bigint not null,
  requested_at timestamptz not null,
  -- What follows is of one run: '' = as it was first asked for, else the replay that asked for it again. The greatest one overrules the others.
  replay text collate "C" not null,
  batch boolean not null,
  test boolean not null,
  -- pending, retrying, delivered or failed, and what goes with it, as the run's fact with the highest sequence in WEBHOOKS says.
  state text collate "C" not null,
  state_seq bigint not null,
  state_at timestamptz not null,
  next_attempt_at timestamptz,
  ended_at timestamptz,
  -- Why it was given up without another request.
  reason text collate "C",
  attempts integer not null,
  first_attempt_at timestamptz,
  -- The run's last request: its answer's status, or why there was none. Sequence 0 = there was no request.
  attempt_seq bigint not null,
  http_status integer,
  error text,
  error_kind text collate "C",
  duration_ms integer
) with (fillfactor = 80);

-- Every request, written once and never changed.
create table delivery_attempts (
  -- Where it lies in WEBHOOKS.
  seq bigint primary key,
  delivery text collate "C" not null,
  replay text collate "C" not null,
  attempt integer not null,
  at timestamptz not null,
  duration_ms integer not null,
  http_status integer,
  -- The answer's first 4,096 bytes as text.
  response text not null,
  error text,
  error_kind text collate "C",
  url text not null,
  headers jsonb not null
);
