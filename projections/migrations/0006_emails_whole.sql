-- The rest of what a request says, and what may become of a recipient beside a server's verdict.
alter table emails
  add column reply_to_list text[] not null default '{}',
  -- Names only: [{"name", "value"}] as they were given.
  add column headers jsonb not null default '[]',
  -- Without their bytes: [{"filename", "content_type", "content_id", "size_bytes"}].
  add column attachments jsonb not null default '[]',
  add column template text collate "C",
  add column template_version integer,
  add column track_opens boolean not null default true,
  add column track_clicks boolean not null default true,
  add column unsubscribe boolean not null default true;

create index emails_template on emails (account, template, created_at desc, id desc) where template is not null;

alter table recipients
  add column suppressed_at timestamptz,
  add column canceled_at timestamptz,
  -- When it is, or was, to be sent, as the request (0) or the last fact that moved it says; -1 = not known yet.
  add column scheduled_at timestamptz,
  add column scheduled_seq bigint not null default -1;

-- As the latest word of its recipients has it.
alter table email_states add column scheduled_at timestamptz;

create index email_states_opened on email_states (account, created_at desc, id desc) where events @> '{email.opened}';
create index email_states_clicked on email_states (account, created_at desc, id desc) where events @> '{email.clicked}';
create index email_states_complained on email_states (account, created_at desc, id desc) where events @> '{email.complained}';
create index email_states_unsubscribed on email_states (account, created_at desc, id desc) where events @> '{email.unsubscribed}';
