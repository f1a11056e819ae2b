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

create index suppressions_newest on suppressions (account, created_at desc, hash desc) where created_at is not null;
-- A reason may be rare among very many: each has its own.
create index suppressions_bounce on suppressions (account, created_at desc, hash desc) where standing @> '[{"reason": "bounce"}]';
create index suppressions_complaint on suppressions (account, created_at desc, hash desc) where standing @> '[{"reason": "complaint"}]';
create index suppressions_unsubscribe on suppressions (account, created_at desc, hash desc) where standing @> '[{"reason": "unsubscribe"}]';
create index suppressions_manual on suppressions (account, created_at desc, hash desc) where standing @> '[{"reason": "manual"}]';
