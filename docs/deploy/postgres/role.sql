-- A role and a database for Jetpost, by psql as a superuser, with the role's password in JETPOST_POSTGRES_PASSWORD. It
-- can make schemas and what is in them, and temporary tables, in this database, and nothing else.
\getenv password JETPOST_POSTGRES_PASSWORD
create role jetpost login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password :'password';
create database jetpost;
revoke all on database jetpost from public;
-- A rebuild fills a table of the session's own first.
grant connect, create, temporary on database jetpost to jetpost;
\connect jetpost
revoke create on schema public from public;
