-- What closed months (UTC, `2026-11`) come to, by the sender's domain ('' = not told).
create table usage (
  account text collate "C" not null,
  month text collate "C" not null,
  domain text collate "C" not null,
  accepted bigint not null,
  suppressed bigint not null,
  canceled bigint not null,
  delivered bigint not null,
  deferred bigint not null,
  bounced bigint not null,
  failed bigint not null,
  opened bigint not null,
  clicked bigint not null,
  complained bigint not null,
  unsubscribed bigint not null,
  primary key (account, month, domain)
);
