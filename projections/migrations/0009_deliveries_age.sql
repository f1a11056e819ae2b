-- Deliveries leave the view by the age of their last fact, whether they have ended or not.
create index deliveries_state_seq on deliveries (state_seq);
drop index deliveries_ended;
