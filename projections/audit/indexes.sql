create index audit_newest on audit (account, at desc, id desc) where not gone;
create index audit_actor on audit (account, actor_id, at desc, id desc) where not gone;
create index audit_principal on audit (account, actor_principal, at desc, id desc) where not gone;
create index audit_session on audit (account, actor_session, at desc, id desc) where not gone;
create index audit_action on audit (account, action, at desc, id desc) where not gone;
-- What things are called.
create index audit_names on audit (account, subject, id desc) where name is not null;
