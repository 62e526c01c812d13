-- Requesting a link leaves the ones sent before valid: a stranger may have requested it, and the owner opens the older mail.
drop index auth.one_time_tokens_user_id_token_type_key;
create index one_time_tokens_user_id on auth.one_time_tokens (user_id, token_type, created_at desc);
comment on table auth.one_time_tokens is 'Codes and links that were sent and not used yet.';

-- Wrong codes count per address and network, in rate_limits: a stranger's must not void the owner's code.
alter table auth.one_time_tokens drop column failed_attempts;

-- The newest flow of a user may be one that a stranger began.
alter table auth.one_time_tokens add column flow_state_id uuid references auth.flow_state (id) on delete set null;
create index one_time_tokens_flow_state_id on auth.one_time_tokens (flow_state_id);
comment on column auth.one_time_tokens.flow_state_id is 'The PKCE flow that the link ends; null without PKCE.';

-- Which one has agreed was not recorded, so both are asked again.
update auth.users set email_change_confirm_status = 0 where email_change_confirm_status <> 0;
comment on column auth.users.email_change_confirm_status is
  'Which of the two addresses has agreed to the change: 0 none, 1 the new one, 2 the current one.';
