-- How far each projection has read each of its streams. Moved by compare-and-set, in the transaction that writes the rows.
create table checkpoints (
  projection text collate "C" not null,
  version integer not null,
  stream text collate "C" not null,
  position bigint not null,
  updated_at timestamptz not null default now(),
  primary key (projection, version, stream)
);
