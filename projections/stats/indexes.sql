-- Hours leave together, and a question is about some of them.
create index stats_hours_hour on stats_hours (hour, account);
create index stats_destinations_hour on stats_destinations (hour, account);
