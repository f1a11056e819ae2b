-- One webhook event on its way to one endpoint. `state` and what goes with it follow the fact with the highest sequence in WEBHOOKS.
create table deliveries (
  id text collate "C" primary key,
  account text collate "C" not null,
  webhook text collate "C" not null,
  event text collate "C" not null,
  event_type text collate "C" not null,
  -- Where the event's bytes lie in EMAILS.
  event_seq bigint not null,
  email text collate "C" not null,
  -- When the request was written.
  created_at timestamptz,
  state text collate "C" not null,
  state_seq bigint not null,
  attempts integer not null,
  first_attempt_at timestamptz,
  next_attempt_at timestamptz,
  ended_at timestamptz,
  -- Why it was given up without another request.
  reason text collate "C",
  -- The last request: its answer's status, or why there was none.
  attempt_seq bigint not null,
  http_status integer,
  error text,
  duration_ms integer
) with (fillfactor = 80);

-- Without the account: the sweep asks for everybody's.
create index deliveries_overdue on deliveries (next_attempt_at) where next_attempt_at is not null;
