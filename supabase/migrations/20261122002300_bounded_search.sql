-- What a search costs is bounded: by the words it may mend and compare, by indexes also where the plan knows no text, and by
-- the number of synonyms, which every search reads. docs/decisions/search.md

create or replace function private.read_search(
  search text,
  out folded text,
  out all_words tsquery,
  out exact_words tsquery,
  out any_words tsquery,
  out correction text,
  out is_misspelt boolean
)
language plpgsql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it reads whole tables. Where a plan must read one all the same,
-- its cost looks so high that PostgreSQL would compile it.
set enable_seqscan = off
-- A text's part is looked for in the trigram index: with a limit the planner would rather read all words in their order.
set enable_indexscan = off
set enable_indexonlyscan = off
set jit = off
-- How much of a word a typing error leaves. The edit distance decides after that.
set pg_trgm.similarity_threshold = 0.2
as $$
declare
  words text[];
  place integer := 1;
  taken integer;
  typed text;
  meaning text;
  exact tsquery;
  wide tsquery;
  others text[];
  best text;
  halves text[];
  found_count integer;
  corrected text[] := '{}';
  -- A search of many words gets fewer near ones for each, and the first words that are in no product are mended: what a
  -- search costs does not grow with what is typed.
  most_near integer;
  mended integer := 0;
begin
  folded := private.fold_text(left(search, 100));
  -- Some characters fold to many.
  words := (string_to_array(left(folded, 200), ' '))[1:10];
  most_near := greatest(4, 40 / greatest(coalesce(cardinality(words), 0), 2));
  is_misspelt := false;
  while place <= coalesce(cardinality(words), 0) loop
    -- The longest phrase from here on that has a meaning, else one word, or two that the catalogue writes as one.
    taken := least(3, cardinality(words) - place + 1);
    loop
      typed := array_to_string(words[place : place + taken - 1], ' ');
      meaning := private.meaning_of(typed);
      exit when meaning is not null or taken = 1;
      taken := taken - 1;
    end loop;
    if meaning is null and place < cardinality(words)
      and exists (select from private.search_words as w where w.word = words[place] || words[place + 1])
    then
      taken := 2;
      typed := words[place] || words[place + 1];
    end if;
    typed := left(typed, 60);
    if typed = any ('{a,an,and,the,of,for,with,in,to,or,my,na,ya,wa,za,la,cha,vya,kwa,au}') then
      place := place + taken;
      continue;
    end if;

    exact := plainto_tsquery('private.catalogue', typed);
    if meaning <> '' then
      exact := exact || to_tsquery('private.catalogue', replace(meaning, ' ', ' | '));
    end if;
    -- Words that begin with it, words that contain it, and the meanings of synonyms that begin with it.
    select array_agg(near.word) into others
    from (
      (
        select w.word from private.search_words as w
        where w.word > typed and w.word < typed || E'\uffff'
        limit most_near
      )
      union
      (
        select w.word from private.search_words as w
        where char_length(typed) between 4 and 24 and w.word like '%' || typed || '%' and w.word <> typed
        limit most_near
      )
      union
      (
        select m.word
        from public.search_synonyms as s, string_to_table(s.means, ' ') as m (word)
        where meaning is null and char_length(typed) >= 2 and s.word > typed and s.word like typed || '%'
          and s.word not like '% %' and m.word <> ''
        limit most_near
      )
    ) as near;

    best := null;
    if meaning is null and others is null and char_length(typed) between 4 and 24 and typed !~ '\d' and mended < 3 then
      mended := mended + 1;
      select count(*) into found_count
      from (select from private.searchable_products as s where s.words @@ exact limit 3) as s;
      if found_count < 3 then
        -- The words that take the fewest edits to get there; two neighbours that changed places count as one.
        with alike as (
          (
            select w.word, w.is_name from private.search_words as w
            where w.word operator(extensions.%) typed
              and (w.is_name or greatest(char_length(w.word), char_length(typed)) > 4)
          )
          union
          select s.word, true from public.search_synonyms as s where s.word not like '% %'
        ), compared as (
          select a.word, a.is_name,
            d.edits - (
              d.edits = 2
              and (select string_agg(c, '' order by c) from string_to_table(a.word, null) as c)
                = (select string_agg(c, '' order by c) from string_to_table(typed, null) as c)
            )::integer as edits
          from alike as a
          cross join lateral (select extensions.levenshtein_less_equal(a.word, typed, 2) as edits) as d
          where d.edits between 1 and 2
        ), nearest as (
          select n.word, n.is_name, n.edits, min(n.edits) over () as fewest
          from compared as n
          where n.edits <= case when char_length(typed) <= 5 then 1 else 2 end
        )
        select array_agg(n.word order by not n.is_name, extensions.similarity(n.word, typed) desc, n.word) into others
        from nearest as n
        where n.edits = n.fewest;
        best := others[1];
        if found_count > 0 then
          -- It may be what was meant: the near words are suggested, not searched.
          others := null;
        elsif best is not null then
          is_misspelt := true;
          meaning := private.meaning_of(best);
          if meaning <> '' then
            others := others || string_to_array(meaning, ' ');
          end if;
        else
          -- Two words without their space.
          select array[left(typed, cut), substr(typed, cut + 1)] into halves
          from generate_series(3, char_length(typed) - 3) as cut
          where cardinality(words) < 12
            and (select count(*) from unnest(array[left(typed, cut), substr(typed, cut + 1)]) as half
              where exists (select from private.search_words as w where w.word = half)
                or private.meaning_of(half) is not null) = 2
          order by cut desc
          limit 1;
          if found then
            is_misspelt := true;
            words := words[: place - 1] || halves || words[place + taken :];
            continue;
          end if;
          -- A longer word that begins with a name: lemonade.
          select array[w.word] into others
          from private.search_words as w
          where w.is_name and w.word = any (array(select left(typed, n) from generate_series(4, char_length(typed) - 1) as n))
          order by char_length(w.word) desc
          limit 1;
          best := others[1];
          is_misspelt := is_misspelt or best is not null;
        end if;
      end if;
    end if;

    wide := exact;
    if others is not null then
      wide := wide || to_tsquery('private.catalogue', array_to_string(others, ' | '));
    end if;
    corrected := corrected || coalesce(best, typed);
    exact_words := coalesce(exact_words || exact, exact);
    any_words := coalesce(any_words || wide, wide);
    -- What stands for any drink does not narrow.
    if meaning is distinct from '' then
      all_words := coalesce(all_words && wide, wide);
    end if;
    place := place + taken;
  end loop;
  correction := array_to_string(corrected, ' ');
end
$$;

create or replace function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
set jit = off
-- A few products are looked up by their id: without statistics the planner would read them all to join them.
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  most integer := least(greatest(coalesce(search_products.page_size, 50), 1), 1000);
  -- More matches than this are not compared with each other: then the newest of them count.
  compared integer := greatest(most, 250);
  asked record;
  candidates tid[];
  by_word tid[];
  found_ids uuid[] := '{}';
begin
  asked := private.read_search(coalesce(search_products.search, ''));
  if asked.exact_words is not null then
    by_word := array(
      select s.ctid from private.searchable_products as s
      where s.words @@ coalesce(asked.all_words, asked.exact_words)
      limit compared
    );
    candidates := by_word;
    -- There may be more: those named so, and the newest.
    if cardinality(by_word) = compared then
      candidates := candidates || array(
        select s.ctid from private.searchable_products as s where s.name ~>=~ asked.folded and s.name ~<~ (asked.folded || E'\uffff') limit compared
      ) || array(
        select s.ctid from private.searchable_products as s
        where to_tsvector('private.catalogue', s.name) @@ coalesce(asked.all_words, asked.exact_words)
        limit compared
      ) || array(
        select n.ctid
        from (
          select s.ctid, s.words from private.searchable_products as s
          order by s.created_at desc, s.product_id
          limit 2 * compared
        ) as n
        where n.words @@ coalesce(asked.all_words, asked.exact_words)
      );
    end if;
    found_ids := private.ranked_products(candidates, asked.folded, asked.exact_words, asked.any_words, most);
    -- Some of the words, where hardly any product has all of them.
    if asked.all_words <> asked.any_words and cardinality(found_ids) < least(most, 3) then
      candidates := array(
        select s.ctid from private.searchable_products as s where s.words @@ asked.any_words limit compared
      );
      found_ids := (array(
        select f.id
        from unnest(found_ids || private.ranked_products(candidates, asked.folded, asked.exact_words, asked.any_words, most))
          with ordinality as f (id, place)
        group by f.id
        order by min(f.place)
      ))[:most];
    end if;
  end if;
  -- Nothing that narrows: every drink, the newest first.
  if asked.all_words is null and (asked.exact_words is not null or trim(coalesce(search_products.search, '')) = '') then
    found_ids := found_ids || array(
      select s.product_id from private.searchable_products as s
      where s.product_id <> all (found_ids)
      order by s.created_at desc, s.product_id
      limit most - cardinality(found_ids)
    );
  end if;
  return query
    select p.*
    from unnest(found_ids) with ordinality as f (id, place)
    join public.products as p on p.id = f.id and p.is_active
    order by f.place;
end
$$;

create or replace function public.correct_search(search text) returns text
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  asked record;
  mended record;
  found_asked integer;
  found_mended integer;
begin
  asked := private.read_search(coalesce(correct_search.search, ''));
  if coalesce(asked.correction, '') in ('', asked.folded) then
    return null;
  end if;
  mended := private.read_search(asked.correction);
  select count(*) into found_mended
  from (select from private.searchable_products as s where s.words @@ mended.all_words limit 250) as s;
  if not asked.is_misspelt then
    select count(*) into found_asked
    from (select from private.searchable_products as s where s.words @@ asked.all_words limit 250) as s;
  end if;
  if found_mended > coalesce(found_asked, 0) or (asked.is_misspelt and mended.all_words is null) then
    return asked.correction;
  end if;
  return null;
end
$$;

-- One call for the shop page: each takes a round trip to the database.
create function public.find_products(search text) returns jsonb
language sql stable
set search_path = ''
as $$
  select jsonb_build_object(
    'slugs', (
      select coalesce(jsonb_agg((f.product).slug order by f.place), '[]')
      from (
        select p as product, row_number() over () as place
        from public.search_products(find_products.search, 1000) as p
      ) as f
    ),
    'correction', public.correct_search(find_products.search)
  );
$$;
comment on function public.find_products(text) is
  'What the shop page shows of a search: the slugs that search_products gives, and the text that correct_search suggests, or null.';
grant execute on function public.find_products(text) to anon, authenticated, service_role;

create or replace function private.fold_synonym() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'INSERT' and (select count(*) from public.search_synonyms) >= 500 then
    raise exception 'there are at most 500 search words' using errcode = '23514';
  end if;
  new.word := private.fold_text(left(new.word, 200));
  new.means := private.fold_text(left(new.means, 1000));
  new.stem := coalesce(private.stem_text(new.word), '');
  return new;
end
$$;

-- The juice of a fruit in Kiswahili.
insert into public.search_synonyms (word, means) values ('maji ya', '') on conflict do nothing;
