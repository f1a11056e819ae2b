-- Who asked to be forgotten, by the hash of the address alone.
create table erasures (
  id text collate "C" primary key,
  account text collate "C" not null,
  -- HMAC-SHA-256 of the folded address.
  hash text collate "C" not null,
  requested_at timestamptz not null,
  -- Null while it is under way.
  completed_at timestamptz,
  -- {emails, recipients, canceled, suppressions, inbound, messages}; null while it is under way.
  counts jsonb
);

-- What each step of one has added, by its sequence in CONTROL: told twice, it counts once.
create table erasure_steps (
  erasure text collate "C" not null,
  seq bigint not null,
  counts jsonb not null,
  primary key (erasure, seq)
);
