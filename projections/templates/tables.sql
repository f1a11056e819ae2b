-- Every version of every template, written once and never changed.
create table template_versions (
  template text collate "C" not null,
  version integer not null,
  account text collate "C" not null,
  created_at timestamptz not null,
  name text not null,
  subject text,
  html text,
  text text,
  variables jsonb not null,
  layout text collate "C",
  primary key (template, version)
);

-- Which version is the newest, and null once the template is deleted: as the fact with the highest sequence in CONTROL
-- says, `seq`.
create table templates (
  id text collate "C" primary key,
  account text collate "C" not null,
  version integer,
  layout text collate "C",
  seq bigint not null
);
