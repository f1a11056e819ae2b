create index templates_newest on templates (account, id desc) where version is not null;
create index templates_layout on templates (layout) where layout is not null;
