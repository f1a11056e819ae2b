-- Recipients counted by the hour (UTC) in which it happened, the sender's domain ('' = not told) and each of the tags;
-- tag '' = all mail, tagged or not. Without recipients at the sandbox.
create table stats_hours (
  account text collate "C" not null,
  tag text collate "C" not null,
  hour timestamptz not null,
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
  primary key (account, tag, hour, domain)
) with (fillfactor = 70);

-- The same by the recipient's domain; '' = of people who are forgotten.
create table stats_destinations (
  account text collate "C" not null,
  destination text collate "C" not null,
  hour timestamptz not null,
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
  primary key (account, destination, hour)
) with (fillfactor = 70);

-- What has been counted of a recipient in an hour, so that a fact counts once however often it is told: by itself, and
-- again by the erasure that took it
-- out of the log. And where, so that an erasure can take it away from there.
create table stats_recipients (
  hour timestamptz not null,
  email text collate "C" not null,
  n smallint not null,
  -- The destination it was accepted for; null = not accepted in this hour.
  asked text collate "C",
  -- Facts, by their sequences in EMAILS in ascending order, that are counted under the destination `told`, and those
  -- that are under ''.
  told text collate "C",
  seqs bigint[],
  erased bigint[],
  primary key (hour, email, n)
) with (fillfactor = 70);
