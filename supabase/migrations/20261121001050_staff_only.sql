-- For functions that run with their owner's rights on behalf of staff.

create function private.expect_staff() returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if not (public.is_admin() or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
end
$$;
comment on function private.expect_staff() is 'Ends the request of anybody but staff and the shop itself.';
