-- Lists read the states one by one: so a rare state costs no more than a common one.
create index deliveries_newest on deliveries (account, state, requested_at desc, id desc);
create index deliveries_of_webhook on deliveries (account, webhook, state, requested_at desc, id desc);
create index deliveries_error on deliveries (account, error_kind, requested_at desc, id desc)
  where error_kind is not null;
create index deliveries_event on deliveries (event) where event is not null;
create index deliveries_email on deliveries (email) where email is not null;
create index deliveries_events on deliveries using gin (events) where events is not null;
create index deliveries_emails on deliveries using gin (emails) where emails is not null;
create index deliveries_failed on deliveries (account, webhook, ended_at, id) where state = 'failed';
-- Replayed deliveries that wait: their number decides whether an endpoint's replays request more. A small index, since
-- it holds those alone.
create index deliveries_replayed on deliveries (account, webhook, attempts, next_attempt_at)
  where state in ('pending', 'retrying') and replay <> '';
-- Deliveries are pruned by the age of their last fact, whether they have ended or not.
create index deliveries_state_seq on deliveries (state_seq);

create index delivery_attempts_delivery on delivery_attempts (delivery, seq);
