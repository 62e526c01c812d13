-- Earlier versions keep working: the new parameter has a default.

drop function public.search_inquiries(text,timestamp with time zone,uuid,integer);

create or replace function public.search_inquiries(
  search text default '', before_created_at timestamptz default null, before_id uuid default null,
  page_size integer default 50, unread boolean default false
) returns setof public.inquiries
language plpgsql stable security definer rows 50 set search_path = '' as $$
declare
  found_ids uuid[];
begin
  perform private.expect_staff('inquiries');
  if search_inquiries.unread then
    return query
      select i.* from public.inquiries as i
      where not i.is_read and (before_id is null or (i.created_at, i.id) > (before_created_at, before_id))
        and position(lower(trim(coalesce(search, ''))) in lower(concat_ws(E'\n', i.name, i.email, i.subject))) > 0
      order by i.created_at, i.id
      limit least(greatest(coalesce(page_size, 50), 1), 1000);
    return;
  end if;
  found_ids := private.find_by_text(
    'inquiries', $sql$lower(t.name || E'\n' || t.email || E'\n' || coalesce(t.subject, ''))$sql$, 'true',
    search, before_created_at, before_id, page_size
  );
  return query
    select i.* from public.inquiries as i where i.id = any (found_ids) order by i.created_at desc, i.id desc;
end
$$;

comment on function public.search_inquiries is
  'For staff: a page of inquiries whose name, email or subject contains a text, ignoring case; newest first, after the one named by before_created_at and before_id. unread: only those, oldest first.';

grant execute on function public.mark_inquiry_read, public.mark_all_inquiries_read, public.search_inquiries
  to authenticated, service_role;
