create index suppressions_newest on suppressions (account, created_at desc, hash desc) where created_at is not null;
-- A reason may be rare among very many: each has its own.
create index suppressions_bounce on suppressions (account, created_at desc, hash desc)
  where standing @> '[{"reason": "bounce"}]';
create index suppressions_complaint on suppressions (account, created_at desc, hash desc)
  where standing @> '[{"reason": "complaint"}]';
create index suppressions_unsubscribe on suppressions (account, created_at desc, hash desc)
  where standing @> '[{"reason": "unsubscribe"}]';
create index suppressions_manual on suppressions (account, created_at desc, hash desc)
  where standing @> '[{"reason": "manual"}]';
