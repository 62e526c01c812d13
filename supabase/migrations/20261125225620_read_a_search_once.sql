create type private.search_terms as (
  folded text,
  all_words tsquery,
  exact_words tsquery,
  any_words tsquery,
  correction text,
  is_misspelt boolean
);
comment on type private.search_terms is
  'A search as it was read. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product.';

drop function private.read_search(text);

create or replace function public.shop_page(
  search text default '',
  brand text default null,
  category text default null,
  sort text default null,
  page integer default 1
) returns jsonb
language plpgsql stable security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  page_size constant integer := 60;
  most_found constant integer := 250;
  wanted text := trim(left(coalesce(shop_page.search, ''), 200));
  of_brand text := left(shop_page.brand, 200);
  of_category text := left(shop_page.category, 200);
  before integer := (least(greatest(coalesce(shop_page.page, 1), 1), 1000) - 1) * page_size;
  is_whole boolean := (select count(*) from (select from public.products as p where p.is_active limit page_size + 1) as few) <= page_size;
  terms private.search_terms;
  found_ids uuid[];
  shown_ids uuid[];
  matching integer;
begin
  if wanted <> '' then
    terms := private.read_search(wanted);
    found_ids := private.found_products(terms, most_found);
  end if;
  if is_whole then
    shown_ids := private.shop_page_ids(null, null, null, 0, page_size);
    matching := coalesce(cardinality(shown_ids), 0);
  elsif wanted <> '' then
    select array_agg(f.id order by f.place) filter (where f.place > before and f.place <= before + page_size), count(*)
    into shown_ids, matching
    from (
      select p.id, row_number() over (
        order by
          case shop_page.sort when 'brand' then lower(p.brand) when 'flavor' then lower(p.category) end,
          case shop_page.sort when 'brand' then p.brand when 'flavor' then p.category end,
          case shop_page.sort when 'price' then p.price end,
          case when shop_page.sort in ('popularity', 'brand', 'flavor', 'price') then p.created_at end desc,
          match.place
      ) as place
      from unnest(found_ids) with ordinality as match (id, place)
      join public.products as p on p.id = match.id
      where (coalesce(of_brand, '') in ('', p.brand)) and (coalesce(of_category, '') in ('', p.category))
    ) as f;
  else
    select coalesce(sum(c.products), 0) into matching
    from private.catalogue_counts as c
    where coalesce(of_brand, '') in ('', c.brand) and coalesce(of_category, '') in ('', c.category);
    shown_ids := private.shop_page_ids(of_brand, of_category, shop_page.sort, before, page_size);
  end if;
  return jsonb_build_object(
    'is_whole', is_whole,
    'count', matching,
    'may_be_more', coalesce(cardinality(found_ids), 0) = most_found,
    'pages', greatest((matching + page_size - 1) / page_size, 1),
    'products', coalesce((
      select jsonb_agg(
        jsonb_build_object(
          'slug', p.slug, 'name', p.name, 'tagline', p.tagline, 'price', p.price, 'previous_price', p.previous_price,
          'image_url', p.image_url, 'category', p.category, 'brand', p.brand, 'stock_quantity', p.stock_quantity
        ) order by s.place
      )
      from unnest(case when matching > 0 then shown_ids else private.shop_page_ids(null, null, null, 0, 12) end)
        with ordinality as s (id, place)
      join public.products as p on p.id = s.id
    ), '[]'),
    'brands', (
      select coalesce(jsonb_agg(distinct c.brand order by c.brand), '[]')
      from private.catalogue_counts as c where c.brand <> ''
    ),
    'categories', (
      select coalesce(jsonb_agg(distinct c.category order by c.category), '[]')
      from private.catalogue_counts as c
      join public.categories as k on k.name = c.category and k.is_active
    ),
    'found', case when is_whole and wanted <> '' then (
      select coalesce(jsonb_agg(p.slug order by f.place), '[]')
      from unnest(found_ids) with ordinality as f (id, place)
      join public.products as p on p.id = f.id
    ) end,
    'correction', case when wanted <> '' then private.better_search(terms) end
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. count: products that match; may_be_more: the search has reached its 250 best matches.';

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
create or replace function private.read_search(search text) returns private.search_terms
language plpgsql stable
set search_path = ''
-- The embedded database gathers no statistics: without this it scans tables. Where it must scan one, the estimated cost would start
-- the JIT compiler.
set enable_seqscan = off
-- Parts of words are found in the trigram index: with a limit the planner would rather scan all words in order.
set enable_indexscan = off
set enable_indexonlyscan = off
set jit = off
-- Minimum similarity of a word with a typing error. The edit distance then decides.
set pg_trgm.similarity_threshold = 0.2
as $$
declare
  folded text := private.fold_text(left(search, 100));
  all_words tsquery;
  exact_words tsquery;
  any_words tsquery;
  is_misspelt boolean := false;
  words text[];
  word_index integer := 1;
  word_count integer;
  typed text;
  meaning text;
  exact tsquery;
  wide tsquery;
  others text[];
  best text;
  halves text[];
  found_count integer;
  corrected text[] := '{}';
  -- More words have fewer similar words each, and only three unknown words are corrected, so that the cost does not grow with the text.
  max_similar integer;
  corrected_count integer := 0;
  price constant text := '\m(\d+ ?(bob|kshs?|kes|shillings?)|(bob|kshs?|kes) ?\d+)\M ?';
begin
  -- A price matches every drink: "500 bob" is no size.
  if folded ~ price then
    folded := trim(regexp_replace(folded, price, '', 'g'));
    exact_words := '';
  end if;
  -- Some characters fold to several.
  words := (string_to_array(left(folded, 200), ' '))[1:10];
  max_similar := greatest(4, 40 / greatest(coalesce(cardinality(words), 0), 2));
  while word_index <= coalesce(cardinality(words), 0) loop
    -- The longest phrase from here on that has a meaning, else one word, or two that the catalogue writes as one.
    word_count := least(3, cardinality(words) - word_index + 1);
    loop
      typed := array_to_string(words[word_index : word_index + word_count - 1], ' ');
      meaning := private.meaning_of(typed);
      exit when meaning is not null or word_count = 1;
      word_count := word_count - 1;
    end loop;
    if meaning is null and word_index < cardinality(words)
      and exists (select from private.search_words as w where w.word = words[word_index] || words[word_index + 1])
    then
      word_count := 2;
      typed := words[word_index] || words[word_index + 1];
    end if;
    typed := left(typed, 60);
    if typed = any ('{a,an,and,the,of,for,with,in,to,or,my,na,ya,wa,za,la,cha,vya,kwa,au}') then
      word_index := word_index + word_count;
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
        limit max_similar
      )
      union
      (
        select w.word from private.search_words as w
        where char_length(typed) between 4 and 24 and w.word like '%' || typed || '%' and w.word <> typed
        limit max_similar
      )
      union
      (
        select m.word
        from public.search_synonyms as s, string_to_table(s.means, ' ') as m (word)
        where meaning is null and char_length(typed) >= 2 and s.word > typed and s.word like typed || '%'
          and s.word not like '% %' and m.word <> ''
        limit max_similar
      )
    ) as near;

    best := null;
    if meaning is null and others is null and char_length(typed) between 4 and 24 and typed !~ '\d' and corrected_count < 3 then
      corrected_count := corrected_count + 1;
      select count(*) into found_count
      from (select from private.searchable_products as s where s.words @@ exact limit 3) as s;
      if found_count < 3 then
        -- The words with the fewest edits; swapped neighbours count as one edit.
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
        select array_agg(n.word order by not n.is_name, right(n.word, 1) <> right(typed, 1), extensions.similarity(n.word, typed) desc, n.word) into others
        from nearest as n
        where n.edits = n.fewest;
        best := others[1];
        if found_count > 0 then
          -- The word has matches: similar words are suggested, not searched.
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
            words := words[: word_index - 1] || halves || words[word_index + word_count :];
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
    if meaning is distinct from '' then
      all_words := coalesce(all_words && wide, wide);
    end if;
    word_index := word_index + word_count;
  end loop;
  return (folded, all_words, exact_words, any_words, array_to_string(corrected, ' '), is_misspelt)::private.search_terms;
end
$$;

comment on function private.read_search is 'Parses a search.';

create or replace function private.found_products(terms private.search_terms, most integer) returns uuid[]
language plpgsql stable
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  -- At most this many matches are ranked; of more, the newest.
  compared integer := greatest(most, 250);
  candidates tid[];
  by_word tid[];
  found_ids uuid[] := '{}';
begin
  if terms.exact_words is not null then
    by_word := array(
      select s.ctid from private.searchable_products as s
      where s.words @@ coalesce(terms.all_words, terms.exact_words)
      limit compared
    );
    candidates := by_word;
    -- There may be more: those named so, and the newest.
    if cardinality(by_word) = compared then
      candidates := candidates || array(
        select s.ctid from private.searchable_products as s where s.name ~>=~ terms.folded and s.name ~<~ (terms.folded || E'\uffff') limit compared
      ) || array(
        select s.ctid from private.searchable_products as s
        where to_tsvector('private.catalogue', s.name) @@ coalesce(terms.all_words, terms.exact_words)
        limit compared
      ) || array(
        select n.ctid
        from (
          select s.ctid, s.words from private.searchable_products as s
          order by s.created_at desc, s.product_id
          limit 2 * compared
        ) as n
        where n.words @@ coalesce(terms.all_words, terms.exact_words)
      );
    end if;
    found_ids := private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most);
    -- Some of the words, where hardly any product matches all of them.
    if terms.all_words <> terms.any_words and cardinality(found_ids) < least(most, 3) then
      candidates := array(
        select s.ctid from private.searchable_products as s where s.words @@ terms.any_words limit compared
      );
      found_ids := (array(
        select f.id
        from unnest(found_ids || private.ranked_products(candidates, terms.folded, terms.exact_words, terms.any_words, most))
          with ordinality as f (id, place)
        group by f.id
        order by min(f.place)
      ))[:most];
    end if;
  end if;
  -- No word narrows the search: every drink, newest first.
  if terms.all_words is null and (terms.exact_words is not null or terms.folded is null) then
    found_ids := found_ids || array(
      select s.product_id from private.searchable_products as s
      where s.product_id <> all (found_ids)
      order by s.created_at desc, s.product_id
      limit most - cardinality(found_ids)
    );
  end if;
  return found_ids;
end
$$;

comment on function private.found_products is
  'Ids of the active products that match a search, best first. Without a text: the newest.';

create or replace function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
-- Finds a few products by id: without statistics the planner would scan the table to join them.
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  terms private.search_terms := private.read_search(nullif(trim(search_products.search), ''));
  found_ids uuid[] := private.found_products(terms, least(greatest(coalesce(search_products.page_size, 50), 1), 1000));
begin
  return query
    select p.*
    from unnest(found_ids) with ordinality as f (id, place)
    join public.products as p on p.id = f.id and p.is_active
    order by f.place;
end
$$;

comment on function public.search_products is
  'Active products that match a search, best first: in name, flavour, brand, tagline and description, with synonyms, word beginnings and typing errors. A blank search returns the newest. Reads 100 characters and 10 words; returns 1 to 1000 rows.';

create or replace function private.better_search(terms private.search_terms) returns text
language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  corrected private.search_terms;
  found_count integer;
  found_corrected integer;
begin
  if coalesce(terms.correction, '') in ('', terms.folded) then
    return null;
  end if;
  corrected := private.read_search(terms.correction);
  select count(*) into found_corrected
  from (select from private.searchable_products as s where s.words @@ corrected.all_words limit 250) as s;
  if not terms.is_misspelt then
    select count(*) into found_count
    from (select from private.searchable_products as s where s.words @@ terms.all_words limit 250) as s;
  end if;
  if found_corrected > coalesce(found_count, 0) or (terms.is_misspelt and corrected.all_words is null) then
    return terms.correction;
  end if;
  return null;
end
$$;

comment on function private.better_search is 'The search with typing errors corrected, if that finds more; else null.';

create or replace function public.correct_search(search text) returns text
language sql stable security definer set search_path = '' as $$
  select private.better_search(private.read_search(correct_search.search));
$$;

comment on function public.correct_search is 'The search with typing errors corrected, if that finds more; else null.';

-- Execution rights
grant execute on function public.search_products, public.correct_search to anon, authenticated, service_role;
