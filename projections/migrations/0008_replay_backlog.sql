-- What replays have asked for that waits for a later try: how much there is of one endpoint decides whether they ask for more. Small, for it holds those alone.
create index deliveries_again on deliveries (account, webhook, attempts, next_attempt_at) where state = 'retrying' and replay <> '';
