-- Who commanded what: a row a command.
create table audit (
  -- `aud_` with the sequence of its fact in CONTROL in 16 digits; of an erasure, whose facts do not last, with the
  -- letters of its id.
  id text collate "C" not null,
  account text collate "C" not null,
  -- Its fact was deleted by an erasure: all else is null.
  gone boolean not null,
  at timestamptz,
  -- The fact's type, or the operation's name.
  action text collate "C",
  -- The id of what it is about; null where it is an address.
  subject text collate "C",
  -- What people call that, where the fact says it.
  name text,
  -- What else the summary tells.
  detail jsonb,
  -- All null where the fact names nobody: it is older than that is known.
  actor_kind text collate "C",
  actor_id text collate "C",
  -- The key or the user behind it.
  actor_principal text collate "C",
  actor_session text collate "C",
  ip text,
  primary key (id)
);
