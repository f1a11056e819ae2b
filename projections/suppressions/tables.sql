-- Who gets no mail, as the fact with the highest sequence of the address's subject in CONTROL, `seq`, says.
create table suppressions (
  account text collate "C" not null,
  -- SHA-256 of the folded address.
  hash text collate "C" not null,
  seq bigint not null,
  -- As it was first given; null when it has been erased, and where nothing stands any more.
  address text,
  -- Why: [{reason, email, since}], oldest first; empty where nothing stands any more.
  standing jsonb not null,
  -- Since when something stands; null where nothing does.
  created_at timestamptz,
  primary key (account, hash)
);
