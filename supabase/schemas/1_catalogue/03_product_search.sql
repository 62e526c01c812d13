-- Product search: an index of words, synonyms, and ranking (docs/decisions/search.md). Prices in a search: 02c_search_prices.sql.

-- Words
-- English stems, so that singular and plural are one word; Kiswahili words pass unchanged. No stop words: "can" is a vessel.
create text search dictionary private.word_stem (template = pg_catalog.snowball, language = english);

create text search configuration private.catalogue (parser = pg_catalog.default);

alter text search configuration private.catalogue
  add mapping for asciiword, word, numword, uint, sfloat with private.word_stem;

-- Synonyms
create table public.search_synonyms (
  id uuid primary key default gen_random_uuid(),
  word text not null,
  means text not null default '',
  stem text not null default '',
  created_at timestamptz not null default now(),
  constraint "a search word is listed once" unique (stem),
  constraint "a search word is one to three words" check (
    char_length(word) between 1 and 60 and array_length(string_to_array(word, ' '), 1) <= 3
  ),
  constraint "a meaning is at most ten words" check (
    char_length(means) <= 200 and coalesce(array_length(string_to_array(means, ' '), 1), 0) <= 10
  )
);
comment on table public.search_synonyms is
  'Words that customers type and their meaning in the catalogue. Folded when they are saved.';
comment on column public.search_synonyms.word is 'One word, or a phrase of two or three.';
comment on column public.search_synonyms.means is
  'Words of the catalogue, any of which matches. Empty: matches every drink, so that the other words of a search decide.';
comment on column public.search_synonyms.stem is 'Stem of the word, so that juice and juices are one entry.';
alter table public.search_synonyms enable row level security;
grant select, insert (word, means), update (word, means), delete on public.search_synonyms to authenticated;
create policy "staff read and edit the synonyms" on public.search_synonyms
  for all to authenticated using ((select public.may('products'))) with check ((select public.may('products')));

-- Search index
create table private.searchable_products (
  product_id uuid primary key references public.products (id) on delete cascade,
  name text not null,
  words tsvector not null,
  created_at timestamptz not null
);
comment on table private.searchable_products is
  'Search index of active products. Weights: A name, B flavour and brand, C tagline, D description.';
comment on column private.searchable_products.name is 'The folded name.';
alter table private.searchable_products enable row level security;

-- Without fastupdate: on the embedded database nothing would flush the pending list, and every search would read it.
create index searchable_products_by_word on private.searchable_products using gin (words) with (fastupdate = off);
create index searchable_products_by_word_of_name on private.searchable_products
  using gin (to_tsvector('private.catalogue', name)) with (fastupdate = off);
create index searchable_products_by_name on private.searchable_products (name text_pattern_ops);
create index searchable_products_newest_first on private.searchable_products (created_at desc, product_id);

create table private.search_words (
  word text collate "C" primary key,
  is_name boolean not null,
  constraint "a search word has a length that is compared" check (char_length(word) between 2 and 40)
);
comment on table private.search_words is 'Words of active products, for completing words and correcting typing errors.';
comment on column private.search_words.is_name is 'Whether it is in a name, flavour or brand.';
alter table private.search_words enable row level security;
create index search_words_by_trigram on private.search_words using gin (word extensions.gin_trgm_ops) with (fastupdate = off);

create function private.fold_text(written text) returns text
language sql immutable set search_path = '' as $$
  select trim(regexp_replace(
    regexp_replace(
      -- Accents are their own characters after NFKD: the first range removes them, with apostrophes and the variants of emoji.
      regexp_replace(lower(normalize(written, nfkd)), '[\u0300-\u036f\ufe0f''’]', '', 'g'),
      -- A size is one word: 500 ml and 500mls are 500ml.
      '(\d)\s*(?:(ml)s|(ml|cl|l|g|kg))\M', '\1\2\3', 'g'
    ),
    '[^a-z0-9\u0080-\U0010ffff]+', ' ', 'g'
  ));
$$;
comment on function private.fold_text is
  'Searchable form of a text: lower case, no accents or punctuation, single spaces. The caller bounds the length.';

create function private.stem_text(folded text) returns text
language sql immutable set search_path = '' as $$
  select string_agg(coalesce((ts_lexize('private.word_stem', word))[1], word), ' ' order by position)
  from string_to_table(folded, ' ') with ordinality as words (word, position);
$$;
comment on function private.stem_text is 'The stems of folded words: the same for singular and plural.';

create function private.fold_synonym() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' and (select count(*) from public.search_synonyms) >= 500 then
    raise exception 'there are at most 500 search words' using errcode = '23514';
  end if;
  new.word := private.fold_text(coalesce(private.visible_text(left(new.word, 200)), ''));
  new.means := private.fold_text(coalesce(private.visible_text(left(new.means, 1000)), ''));
  new.stem := coalesce(private.stem_text(new.word), '');
  return new;
end
$$;

create function private.meaning_of(phrase text) returns text
language sql stable set search_path = '' set enable_indexscan = on set enable_indexonlyscan = on as $$
  select case
    when s.means = '' or exists (
      select from string_to_table(s.means, ' ') as meant (word)
      join public.search_synonyms as other on other.stem = private.stem_text(meant.word)
      where other.means = ''
    ) then ''
    else s.means
  end
  from public.search_synonyms as s
  where s.stem = private.stem_text(phrase);
$$;
comment on function private.meaning_of is
  'Meaning of a folded phrase: words of the catalogue; empty for every drink; null if it is no synonym. A synonym may refer to another one for every drink.';

create function private.searchable_texts(product public.products) returns text[]
language sql immutable set search_path = '' as $$
  select array[
    private.fold_text(product.name),
    private.fold_text(concat_ws(' ', product.category, product.brand)),
    private.fold_text(left(coalesce(product.tagline, ''), 1000)),
    private.fold_text(concat_ws(' ', left(product.description, 10000), case when product.previous_price > 0 then 'offer' end))
  ];
$$;
comment on function private.searchable_texts is
  'Searchable texts of a product, folded: name; flavour and brand; tagline; description, with the word offer if it is on offer.';

create function private.index_product(product public.products) returns void
language plpgsql
set search_path = ''
-- A cached plan that was made for small tables must not scan large ones.
set enable_seqscan = off
set jit = off
as $$
declare
  texts text[] := private.searchable_texts(product);
  found_words text[];
  names text[];
begin
  insert into private.searchable_products (product_id, name, words, created_at)
  values (
    product.id, texts[1],
    setweight(to_tsvector('private.catalogue', texts[1]), 'A') || setweight(to_tsvector('private.catalogue', texts[2]), 'B')
      || setweight(to_tsvector('private.catalogue', texts[3]), 'C')
      || setweight(to_tsvector('private.catalogue', texts[4]), 'D'),
    product.created_at
  );
  select array_agg(distinct t.word), array_agg(distinct t.word) filter (where field <= 2) into found_words, names
  from generate_subscripts(texts, 1) as field, string_to_table(texts[field], ' ') as t (word)
  where char_length(t.word) between 2 and 40;
  insert into private.search_words (word, is_name)
  select f.word, f.word = any (names)
  from unnest(found_words) as f (word)
  where not exists (select from private.search_words as known where known.word = f.word)
  order by f.word
  on conflict do nothing;
  update private.search_words as w set is_name = true where w.word = any (names) and not w.is_name;
end
$$;

create function private.delete_unused_words(removed text[]) returns void
language sql set search_path = '' set enable_seqscan = off set jit = off as $$
  delete from private.search_words as w
  where w.word = any (removed)
    and not exists (
      select from private.searchable_products as s
      where s.words @@ plainto_tsquery('private.catalogue', w.word)
    );
$$;
comment on function private.delete_unused_words is
  'Deletes words that no active product has any more, so that no suggestion leads nowhere.';

create function private.update_product_search(old public.products, new public.products) returns void
language plpgsql set search_path = '' as $$
declare
  removed text[];
begin
  if old.id is not null then
    removed := string_to_array(array_to_string(private.searchable_texts(old), ' '), ' ');
    delete from private.searchable_products as s where s.product_id = old.id;
  end if;
  if new.is_active then
    perform private.index_product(new);
    removed := array(
      select unnest(removed) except select string_to_table(array_to_string(private.searchable_texts(new), ' '), ' ')
    );
  end if;
  if cardinality(removed) > 0 then
    perform private.delete_unused_words(removed);
  end if;
end
$$;

create type private.search_terms as (
  folded text,
  all_words tsquery,
  exact_words tsquery,
  any_words tsquery,
  correction text,
  is_misspelt boolean,
  most_cents integer
);
comment on type private.search_terms is
  'A search as it was read. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product. most_cents: the highest price that it names.';

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
create function private.read_search(search text) returns private.search_terms
language plpgsql stable
set search_path = ''
-- Bounds the cost of any text: the planner cannot know how rare it is, and would scan tables. Where it must scan one, the estimated cost
-- would start the JIT compiler.
set enable_seqscan = off
-- Parts of words are found in the trigram index: with a limit the planner would rather scan all words in order.
set enable_indexscan = off
set enable_indexonlyscan = off
set jit = off
-- Minimum similarity of a word with a typing error. The edit distance then decides.
set pg_trgm.similarity_threshold = 0.2
as $$
declare
  folded text := private.fold_text(private.price_as_figures(left(search, 100)));
  priced record;
  shop_words text[];
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
  -- Words of sentences, which narrow no search.
  filler_words constant text[] :=
    '{a,an,and,are,at,au,by,cha,do,does,for,have,how,i,in,is,it,kwa,la,me,my,na,ni,of,or,our,out,the,to,vya,wa,we,what,when,where,which,with,ya,you,your,za}';
  -- Drinks of others that people ask for, and words of questions: they need no correction.
  known_words constant text[] :=
    '{afia,alvaro,azam,beer,ceres,chai,cider,coca,coffee,coke,cola,dasani,delmonte,fanta,guinness,highlands,kahawa,keringet,kevian,konyagi,krest,lucozade,maramoja,maziwa,milk,minute,mirinda,monster,monte,novida,pepsi,picana,predator,quencher,refund,rum,savanna,schweppes,smirnoff,softa,sold,sprite,stoney,tropicana,tusker,vodka,water,whisky,wine,yoghurt,yogurt}';
begin
  -- A price matches every drink: "500 bob" is no size.
  priced := private.split_price(folded);
  if priced.words <> folded then
    folded := priced.words;
    exact_words := '';
  end if;
  select string_to_array(private.fold_text(s.store_name), ' ') into shop_words from public.store_settings as s;
  shop_words := shop_words || array_to_string(shop_words, '');
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
    -- One letter is the beginning of a word only while nothing else is typed.
    if typed = any (filler_words) or (typed ~ '^[a-z]$' and cardinality(words) > 1) then
      word_index := word_index + word_count;
      continue;
    end if;
    -- The shop's own name matches every drink, also with one typing error.
    if (typed = any (shop_words) or rtrim(typed, 's') = any (shop_words) or (meaning is null and char_length(typed) <= 60 and exists (
        select from unnest(shop_words) as shop (word)
        where char_length(shop.word) between 4 and 60 and left(shop.word, 1) = left(typed, 1) and private.meaning_of(shop.word) is null
          and extensions.levenshtein_less_equal(shop.word, typed, 1) <= 1
      )))
      and not exists (select from private.search_words as w where w.word = typed)
    then
      exact_words := coalesce(exact_words, '');
      corrected := corrected || typed;
      word_index := word_index + 1;
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
    if meaning is null and others is null and char_length(typed) between 4 and 24 and typed !~ '\d' and corrected_count < 3
      and typed <> all (known_words) then
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
          -- People seldom mistype the first letter.
          where n.edits <= case when char_length(typed) <= 5 or left(n.word, 1) <> left(typed, 1) then 1 else 2 end
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
  return (folded, all_words, exact_words, any_words, array_to_string(corrected, ' '), is_misspelt, priced.most_cents)::private.search_terms;
end
$$;
comment on function private.read_search is 'Parses a search.';

create function private.ranked_products(candidates tid[], folded text, exact_words tsquery, any_words tsquery, most integer)
returns uuid[]
language sql stable set search_path = '' as $$
  select array(
    select s.product_id
    from private.searchable_products as s
    where s.ctid = any (candidates)
    order by
      s.name = folded desc,
      s.name like folded || '%' desc,
      -- Typed words count more than near words.
      2 * ts_rank('{0.1, 0.3, 0.6, 1}', s.words, exact_words) + ts_rank('{0.1, 0.3, 0.6, 1}', s.words, any_words) desc,
      s.created_at desc,
      s.product_id
    limit most
  );
$$;
comment on function private.ranked_products is
  'The best of some searchable products: exact name, names that start with the search, then by rank of the words, then the newest.';

create function private.found_products(terms private.search_terms, most integer) returns uuid[]
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
  affordable uuid[];
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
  if terms.most_cents is not null then
    affordable := array(
      select p.id from unnest(found_ids) with ordinality as f (id, place) join public.products as p on p.id = f.id
      where p.price <= terms.most_cents
      order by f.place
    );
    -- Where nothing is that cheap, what comes closest.
    found_ids := case when cardinality(affordable) > 0 then affordable else array(
      select p.id from unnest(found_ids) with ordinality as f (id, place) join public.products as p on p.id = f.id
      order by p.price, f.place
    ) end;
  end if;
  return found_ids;
end
$$;
comment on function private.found_products is
  'Ids of the active products that match a search, best first. Without a text: the newest. A price in the search limits them; where nothing is that cheap, the cheapest come first.';

create function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
set jit = off
as $$
declare
  terms private.search_terms := private.read_search(nullif(trim(search_products.search), ''));
  found_ids uuid[] := private.found_products(terms, least(greatest(coalesce(search_products.page_size, 50), 1), 1000));
begin
  return query
    select p.*
    from unnest(found_ids) with ordinality as f (id, place)
    -- With an offset these stay lookups by key.
    cross join lateral (select * from public.products as p where p.id = f.id and p.is_active offset 0) as p
    order by f.place;
end
$$;
comment on function public.search_products is
  'Active products that match a search, best first: in name, flavour, brand, tagline and description, with synonyms, word beginnings and typing errors. A blank search returns the newest. Reads 100 characters and 10 words; returns 1 to 1000 rows.';

create function private.better_search(terms private.search_terms) returns text
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

create function public.correct_search(search text) returns text
language sql stable security definer set search_path = '' as $$
  select private.better_search(private.read_search(correct_search.search));
$$;
comment on function public.correct_search is 'The search with typing errors corrected, if that finds more; else null.';

create trigger search_synonyms_before_change before insert or update on public.search_synonyms
  for each row execute function private.fold_synonym();

-- Execution rights
grant execute on function public.search_products, public.correct_search to anon, authenticated, service_role;
