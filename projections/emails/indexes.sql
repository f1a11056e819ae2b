create index emails_newest on emails (account, created_at desc, id desc);
create index emails_from on emails (account, lower(from_address), created_at desc, id desc);
create index emails_domain on emails (account, from_domain, created_at desc, id desc);
create index emails_template on emails (account, template, created_at desc, id desc) where template is not null;

create index email_states_status on email_states (account, status, created_at desc, id desc);
create index email_states_bounced on email_states (account, created_at desc, id desc) where events @> '{email.bounced}';
create index email_states_opened on email_states (account, created_at desc, id desc) where events @> '{email.opened}';
create index email_states_clicked on email_states (account, created_at desc, id desc) where events @> '{email.clicked}';
create index email_states_complained on email_states (account, created_at desc, id desc)
  where events @> '{email.complained}';
create index email_states_unsubscribed on email_states (account, created_at desc, id desc)
  where events @> '{email.unsubscribed}';

create index recipients_address on recipients (account, lower(address), email);
-- Without the account: the reconciler asks for everybody's.
create index recipients_overdue on recipients (wake_at) where wake_at is not null;

-- The account leads in the GIN indexes too, and substrings are found by trigrams, where the server carries these two
-- extensions (contrib,
-- trusted since 13). Where it does not, the same queries run, only slower.
do $$
begin
  create extension if not exists btree_gin schema public;
  create extension if not exists pg_trgm schema public;
  create index emails_tags on emails using gin (account, tags) where tags <> '{}';
  create index emails_metadata on emails using gin (account, metadata jsonb_path_ops) where metadata <> '{}';
  create index emails_search on emails using gin (account, search gin_trgm_ops);
exception when insufficient_privilege or feature_not_supported or undefined_file or invalid_schema_name then
  create index emails_tags on emails using gin (tags) where tags <> '{}';
  create index emails_metadata on emails using gin (metadata jsonb_path_ops) where metadata <> '{}';
end
$$;
