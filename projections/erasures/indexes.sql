create index erasures_newest on erasures (account, requested_at desc, id desc);
create index erasures_pending on erasures (requested_at, id) where completed_at is null;
