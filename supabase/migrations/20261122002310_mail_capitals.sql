-- After their greeting mails go on with a capital letter. What staff have edited stays as it is.

update public.message_templates as t
set body = case when t.body = t.default_body then capital.words else t.body end,
    default_body = capital.words
from (
  select d.kind, d.channel,
    left(d.default_body, d.start - 1) || upper(substr(d.default_body, d.start, 1)) || substr(d.default_body, d.start + 1) as words
  from (
    select m.kind, m.channel, m.default_body, position(E'\n\n' in m.default_body) + 2 as start
    from public.message_templates as m
    where m.default_body like 'Habari%'
  ) as d
) as capital
where t.kind = capital.kind and t.channel = capital.channel;
