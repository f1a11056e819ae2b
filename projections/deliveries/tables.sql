-- One event, or one batch, for one endpoint.
create table deliveries (
  id text collate "C" primary key,
  account text collate "C" not null,
  webhook text collate "C" not null,
  -- Its event, when it has one: `event_seq` is the fact's sequence in EMAILS, 0 = a test event.
  event text collate "C",
  event_type text collate "C",
  event_seq bigint,
  email text collate "C",
  -- Its events, when it has several, oldest first. One or the other: an array costs several times as much as a column,
  -- and most deliveries have one event.
  events text[] collate "C",
  event_types text[] collate "C",
  event_seqs bigint[],
  emails text[] collate "C",
  -- The first fact known of it, and its time.
  first_seq bigint not null,
  requested_at timestamptz not null,
  -- The columns below are about one run: '' = the first, else the id of the replay that requested it. The greatest id
  -- overrules the others.
  replay text collate "C" not null,
  batch boolean not null,
  test boolean not null,
  -- pending, retrying, delivered or failed, by the run's fact with the highest sequence in WEBHOOKS.
  state text collate "C" not null,
  state_seq bigint not null,
  state_at timestamptz not null,
  next_attempt_at timestamptz,
  ended_at timestamptz,
  -- Why it failed without another request.
  reason text collate "C",
  attempts integer not null,
  first_attempt_at timestamptz,
  -- The run's last request: the status of its response, or why there was none. Sequence 0 = there was no request.
  attempt_seq bigint not null,
  http_status integer,
  error text,
  error_kind text collate "C",
  duration_ms integer
) with (fillfactor = 80);

-- Every request; rows never change.
create table delivery_attempts (
  -- Its sequence in WEBHOOKS.
  seq bigint primary key,
  delivery text collate "C" not null,
  replay text collate "C" not null,
  attempt integer not null,
  at timestamptz not null,
  duration_ms integer not null,
  http_status integer,
  -- The first 4,096 bytes of the response as text.
  response text not null,
  error text,
  error_kind text collate "C",
  url text not null,
  headers jsonb not null
);
