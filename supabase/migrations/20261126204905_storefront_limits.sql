-- The most that M-PESA takes in one payment; one reader of phone numbers; required texts have visible characters; prices in searches.
alter type private.search_terms add attribute most_cents integer;
comment on type private.search_terms is
  'A search as it was read. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product. most_cents: the highest price that it names.';

alter table public.store_settings add column payment_limit integer not null default 25000000;
comment on column public.store_settings.payment_limit is
  'In cents: the most that M-PESA takes in one payment, and so the largest total of an order.';
grant update (payment_limit) on public.store_settings to authenticated;
grant select (payment_limit) on public.store_settings to anon, authenticated;

drop function private.read_phone(text);

drop function private.total_of_offer(products,integer,integer,integer);

alter table public.store_settings add constraint "M-PESA takes a payment of at least one shilling" CHECK (((payment_limit >= 100) AND (payment_limit <= 100000000)));

create or replace function private.normalised_phone(phone text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  written text;
  run text[];
  digits text;
  found_number text;
  has_other_digits boolean := false;
  is_bare boolean := false;
begin
  if octet_length(phone) > 400 or char_length(phone) > 100 then
    return null;
  end if;
  written := regexp_replace(
    translate(phone, '０１２３４５６７８９＋', '0123456789+'),
    '[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]', '', 'g'
  );
  -- Digits with what people write between them, and a letter that touches them.
  for run in
    select * from regexp_matches(
      written,
      '([a-zA-Z]?)(\+?[0-9](?:[0-9 \t\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000().-]*[0-9])?)([a-zA-Z]?)', 'g'
    )
  loop
    digits := regexp_replace(
      regexp_replace(run[2], '[^0-9+]', '', 'g'), '^(?:\+254|00254|254)0?(?=[17])', '0'
    );
    if digits ~ '^[17][0-9]{8}$' and run[1] || run[3] = '' then
      is_bare := true;
      digits := '0' || digits;
    end if;
    if digits ~ '^(\+254|0)[17][0-9]{8}$' then
      if found_number <> right(digits, 9) then
        return null;
      end if;
      found_number := right(digits, 9);
    elsif char_length(digits) > 6 then
      return null;
    else
      has_other_digits := true;
    end if;
  end loop;
  -- Beside other digits, nine digits may be the end of a foreign number.
  if is_bare and has_other_digits then
    return null;
  end if;
  return '+254' || found_number;
end
$$;

comment on function private.normalised_phone is
  'The Kenyan mobile number in a text, also in a link or with a name, as +2547… or +2541…; null for a text without one or with different ones. Reads as domain/phone.ts.';

create or replace function private.visible_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return char_length(regexp_replace(
    written,
    '[\u0001-\u0020\u007f-\u00a0\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0600-\u0605\u0610-\u061c'
    '\u064b-\u065f\u0670\u06d6-\u06dd\u070f\u0900-\u0903\u093a-\u093c\u093e-\u094f\u0e31\u0e34-\u0e3a'
    '\u0e47-\u0e4e\u115f\u1160\u135d-\u135f\u1680\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff'
    '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u20d0-\u20f0\u2800\u3000\u302a-\u302f\u3099\u309a\u3164'
    '\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]',
    '', 'g'
  ));
end
$$;

comment on function private.visible_length is
  'Number of characters that a reader sees: without white space, control and format characters, and combining marks. Counts as domain/visible-text.ts.';

create or replace function private.word_length(written text) returns integer
language plpgsql immutable set search_path = '' as $$
begin
  return private.visible_length(regexp_replace(
    written,
    '[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9'
    '\u00bb-\u00bf\u00d7\u00f7\u02c2-\u02df\u2010-\u2bff\u2e00-\u2e7f\u3001-\u3004\u3008-\u3020\u3030'
    '\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffc\ufffd'
    '\U0001f000-\U0001faff]',
    '', 'g'
  ));
end
$$;

comment on function private.word_length is
  'Number of letters and digits of any script in a text. Counts as domain/visible-text.ts.';

create or replace function private.refuse_blank(promise text, written text) returns void
language plpgsql immutable set search_path = '' as $$
begin
  if private.visible_length(refuse_blank.written) = 0 then
    raise exception using
      errcode = 'check_violation', constraint = refuse_blank.promise,
      message = format('the text of "%s" has no visible characters', refuse_blank.promise);
  end if;
end
$$;

comment on function private.refuse_blank is
  'For triggers: refuses a required text of invisible characters as the named check constraint does, which cannot call private functions.';

create or replace function private.is_email(address text) returns boolean
language plpgsql immutable set search_path = '' as $$
declare
  domain text;
begin
  if address is null or octet_length(address) > 1016 or char_length(address) > 254 then
    return false;
  end if;
  -- White space and control characters, written out: \s depends on the database's locale.
  if address ~ '[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]' then
    return false;
  end if;
  domain := split_part(address, '@', 2);
  return char_length(replace(address, '@', '')) = char_length(address) - 1
    and private.visible_length(split_part(address, '@', 1)) > 0 and private.word_length(domain) > 0
    -- A dot that is neither the first nor the last character.
    and position('.' in substr(domain, 2, greatest(char_length(domain) - 2, 0))) > 0;
end
$$;

comment on function private.is_email is
  'Whether a text can be an email address, by the rule of domain/email.ts: at most 254 characters; one @ with text before it; after it a dot with text on both sides; no spaces or control characters.';

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
    'correction', case when wanted <> '' then private.better_search(terms) end,
    'most_cents', terms.most_cents
  );
end
$$;

comment on function public.shop_page(text, text, text, text, integer) is
  'What the shop page shows. Up to 60 active products are all given, newest first, with the slugs that a search found, best first. Of more products, 60 per page that match the search, brand and flavour, in the order of sort; if none does, the newest 12. most_cents: the highest price that the search names. count: products that match; may_be_more: the search has reached its 250 best matches.';

-- Execution rights
grant execute on function public.product_and_related, public.home_products, public.shop_page
  to anon, authenticated, service_role;

create or replace function private.split_price(folded text, out words text, out most_cents integer)
language plpgsql immutable set search_path = '' as $$
declare
  currency constant text := '(?:bob|kshs?|kes|shs?|shillings?|shilingi)';
  number constant text := '(\d{1,3}(?: \d{3})+|\d{1,7})';
  -- A lower bound is read, too, but limits nothing.
  named constant text := '\m(?:(over|above|more than|from|at least|zaidi ya) |(?:at|for|about|around|price|kama|bei ya|bei) )?'
    || format('(?:%1$s ?%2$s|%2$s ?%1$s)(?: or less)?\M ?', currency, number);
  limited constant text := format('\m(?:(?:under|below|less than|cheaper than|up to|at most|maximum|max|budget|chini ya|hadi) '
    '(?:%1$s ?)?%2$s(?: ?%1$s)?|%2$s or less)\M ?', currency, number);
  found_price text[];
begin
  words := folded;
  found_price := regexp_match(folded, limited);
  if found_price is not null then
    most_cents := replace(coalesce(found_price[1], found_price[2]), ' ', '')::integer * 100;
    words := regexp_replace(words, limited, '', 'g');
  end if;
  found_price := regexp_match(words, named);
  if found_price is not null then
    if found_price[1] is null then
      most_cents := coalesce(most_cents, replace(coalesce(found_price[2], found_price[3]), ' ', '')::integer * 100);
    end if;
    words := regexp_replace(words, named, '', 'g');
  end if;
  words := trim(words);
end
$$;

comment on function private.split_price is
  'Separates the price in a folded search from its words: most_cents is the highest price wanted, null without one. words has no price.';

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
  -- "700/=" and "<700" name a price.
  folded text := private.fold_text(
    regexp_replace(regexp_replace(left(search, 100), '(\d) ?/[=-]', '\1 bob', 'g'), '[<≤] ?(\d)', 'under \1', 'g')
  );
  priced record;
  shop_name text;
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
  -- Other drinks that people ask for: words that need no correction.
  known_words constant text[] :=
    '{afia,beer,chai,cider,coffee,coke,cola,fanta,guinness,kahawa,keringet,konyagi,krest,maziwa,milk,minute,mirinda,monster,novida,pepsi,picana,quencher,rum,savanna,schweppes,smirnoff,sprite,stoney,tusker,vodka,water,whisky,wine,yoghurt,yogurt}';
begin
  -- A price matches every drink: "500 bob" is no size.
  priced := private.split_price(folded);
  if priced.words <> folded then
    folded := priced.words;
    exact_words := '';
  end if;
  select private.fold_text(s.store_name) into shop_name from public.store_settings as s;
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
    -- The shop's own name matches every drink.
    if (typed = any (string_to_array(shop_name, ' ')) or typed in (shop_name || 's', replace(shop_name, ' ', '')))
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

create or replace function private.read_order_details(
  customer_name text, customer_email text, customer_phone text, delivery_location text, building text, unit text,
  delivery_notes text
) returns private.order_details
language plpgsql immutable set search_path = '' as $$
declare
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
begin
  -- octet_length is cheap: longer texts are refused before they are trimmed, matched or counted.
  if octet_length(customer_name) > 4000 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(customer_email) > 4000 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(octet_length(delivery_location), octet_length(building), octet_length(unit)) > 4000 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(delivery_notes) > 4000 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(customer_name);
  email := trim(customer_email);
  phone := private.normalised_phone(customer_phone);
  location := trim(delivery_location);
  building_name := nullif(trim(building), '');
  unit_name := nullif(trim(unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or private.visible_length(name) < 2 or private.has_control_characters(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  elsif char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif not private.is_email(email) or private.has_control_characters(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif phone is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  elsif location is null or private.word_length(location) < 3
    or private.has_control_characters(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  elsif char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  return (
    name, email, phone, location || coalesce(', Building: ' || building_name, '') || coalesce(', Unit: ' || unit_name, ''), notes
  )::private.order_details;
end
$$;

comment on function private.read_order_details is 'Checks and trims what a customer typed; refuses what is missing, invalid or too long.';

create or replace function private.refuse_above_payment_limit(payment_limit integer) returns void
language plpgsql set search_path = '' as $$
begin
  perform private.refuse(400, 'total_too_large',
    format('M-PESA takes at most KSh %s in one payment. Please order less, or contact us for a large order',
      to_char(payment_limit / 100, 'FM999,999,999')),
    payment_limit::text);
end
$$;

comment on function private.refuse_above_payment_limit is
  'Refuses an order that M-PESA cannot charge in one payment. The hint is the limit in cents.';

create or replace function private.total_of_offer(
  product public.products, quantity integer, settings public.store_settings, expected_total integer
) returns integer
language plpgsql stable set search_path = '' as $$
declare
  total bigint := product.price::bigint * total_of_offer.quantity + settings.delivery_fee;
begin
  if product.id is null then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif product.stock_quantity = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif product.stock_quantity < total_of_offer.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity), product.stock_quantity::text);
  -- M-PESA charges whole shillings.
  elsif (total + 99) / 100 * 100 > settings.payment_limit then
    perform private.refuse_above_payment_limit(settings.payment_limit);
  elsif total_of_offer.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;
  return total;
end
$$;

comment on function private.total_of_offer is
  'Price of the units and the delivery fee, in cents. Refuses an order whose product (null: not for sale), stock or total is not what its customer saw.';

create or replace function public.place_order(
  idempotency_key uuid,
  product_id uuid,
  quantity integer,
  customer_name text,
  customer_email text,
  customer_phone text,
  delivery_location text,
  expected_total integer,
  building text default null,
  unit text default null,
  delivery_notes text default null,
  accepts_terms boolean default null
) returns jsonb
language plpgsql security definer
set search_path = ''
-- A cached plan made for few orders must not scan or join many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- The functions it calls inherit this: one with an array as parameter would be planned again at each call.
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  customer private.order_details;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total integer;
  refusal jsonb;
  new_order public.orders;
  number text;
  -- Empty for staff and the shop itself, whose unpaid orders are not limited.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
  expires_at timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  -- A repeated call returns its order even over the limit: its client may have lost the first response.
  if not is_within_limit and not exists (
    select from private.order_keys as k where k.idempotency_key = place_order.idempotency_key
  ) then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  elsif place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;

  customer := private.read_order_details(
    place_order.customer_name, place_order.customer_email, place_order.customer_phone, place_order.delivery_location,
    place_order.building, place_order.unit, place_order.delivery_notes
  );
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, customer.name, customer.email, customer.phone, customer.address,
      customer.notes, place_order.expected_total)::text, 'UTF8'
  )), 'hex');

  -- The first request with a key places the order; concurrent ones with the same key wait here.
  insert into private.order_keys (idempotency_key, request_hash)
  values (place_order.idempotency_key, fingerprint)
  on conflict do nothing;
  if not found then
    select * into strict earlier from private.order_keys as k where k.idempotency_key = place_order.idempotency_key;
    if earlier.request_hash <> fingerprint then
      perform private.refuse(409, 'idempotency_key_reused', 'This idempotency key belongs to another order');
    end if;
    return private.placed_order(earlier.order_id);
  end if;

  select * into strict settings from public.store_settings;
  if settings.requires_terms_tick and place_order.accepts_terms is not true then
    perform private.refuse(400, 'terms_not_accepted', 'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.refuse_too_many_unpaid_orders(networks, customer.phone, settings.unpaid_orders_per_phone);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active;
  total := private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
  );
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 10 loop
    number := private.draw_tracking_number();
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      number, customer.name, customer.email, customer.phone, customer.address, customer.notes,
      settings.delivery_fee, total, case when is_held then expires_at end, expires_at,
      now() + 2 * make_interval(mins => settings.reservation_minutes),
      case when place_order.accepts_terms then now() end,
      case when place_order.accepts_terms then (
        select coalesce(jsonb_object_agg(t.slug, t.updated_at), '{}') || jsonb_build_object('is_ticked', settings.requires_terms_tick)
        from public.shop_texts as t
        where t.slug in ('terms', 'privacy')
      ) end
    )
    on conflict (tracking_number) do nothing
    returning * into new_order;
    continue when not found;
    -- Orders of one product wait for each other from here to their end, so that the costly part comes before. Another order may have
    -- changed what is left.
    select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
    perform private.total_of_offer(product, place_order.quantity, settings, place_order.expected_total);
    exit when not is_held or private.may_hold_units(
      networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
    );
    is_held := false;
    delete from public.orders as o where o.id = new_order.id;
    new_order := null;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
  end if;

  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  insert into public.order_items (order_id, product_id, product_name, quantity, unit_price)
  values (new_order.id, product.id, product.name, place_order.quantity, product.price);
  insert into private.order_networks (order_id, network, product_id, taken)
  select new_order.id, caller.network, product.id, case when is_held then place_order.quantity else 0 end
  from unnest(networks) as caller (network);
  update private.order_keys as k set order_id = new_order.id where k.idempotency_key = place_order.idempotency_key;
  return private.placed_order(new_order.id);
exception when sqlstate 'PT000' then
  get stacked diagnostics refusal_details = pg_exception_detail, refusal_hint = pg_exception_hint;
  refusal := private.refusal_answer(sqlstate, sqlerrm, refusal_details, refusal_hint);
  -- Current figures for the form.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price, 'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;

comment on function public.place_order is
  'Places an order in one transaction: price and fee from the database, a new tracking number, units held (reserved_until) unless unpaid orders hold too many. The same key again returns the same order. A refusal includes quote: the current price, delivery_fee, total and units_left.';

-- Execution rights
grant execute on function public.place_order to anon, authenticated, service_role;

create or replace function public.begin_payment(
  order_id uuid, tracking_number text, phone text, callback_secret text, expected_cents integer default null
) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  payer text := private.normalised_phone(begin_payment.phone);
  ordered public.orders;
  current_attempt public.payments;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The lock on the order's row serialises its attempts, settlements and expiry.
  select * into ordered from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = ordered.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order allows another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      ordered.payment_status in ('paid', 'refunded')
      or (ordered.payment_status = 'needs_review' and p.charge_cents = ordered.charge_cents)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if ordered.payment_status = 'needs_review' then
    perform private.refuse(409, 'payment_needs_review',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  elsif ordered.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  elsif ordered.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if ordered.charge_cents < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  elsif begin_payment.expected_cents not in (ordered.total_amount, ordered.charge_cents) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  elsif ordered.charge_cents > (select s.payment_limit from public.store_settings as s) then
    perform private.refuse_above_payment_limit((select s.payment_limit from public.store_settings as s));
  end if;

  -- Without limits, one order could send prompts to many phones.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', ordered.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;
  if not private.may_prompt_phone(payer, ordered) then
    return private.refusal_answer('PT429',
      'This phone had many unpaid payment prompts today. Please pay from another phone, or contact us',
      'too_many_unanswered_prompts', '');
  end if;

  -- Refusals from here on return, so that the calls stay counted.
  begin
    insert into public.payments (order_id, phone, charge_cents, next_query_at)
    values (ordered.id, payer, ordered.charge_cents, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, callback_secret)
    values (current_attempt.id, begin_payment.callback_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(ordered.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true, 'payment', to_jsonb(current_attempt), 'tracking_number', ordered.tracking_number
  );
end
$$;

comment on function public.begin_payment is
  'Opens a payment attempt for an order, or returns the open or successful one. id and tracking number must belong to one order. A prompt may be sent only if is_new.';

-- Execution rights
grant execute on function public.begin_payment, public.begin_payment_test, public.record_push, public.find_payment,
  public.find_payment_by_secret, public.lease_payment_queries to service_role;

create or replace function private.before_inquiry_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request bounds the checks of an insert.
    if current_setting('private.has_inquiry', true) = 'yes' then
      perform private.refuse(400, 'too_many_rows', 'Please send one message at a time');
    end if;
    perform set_config('private.has_inquiry', 'yes', true);
    if not private.count_call('inquiries') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network. Please try again in a few minutes');
    elsif not private.count_call('inquiries_of_day') then
      perform private.refuse(429, 'too_many_inquiries', 'Too many messages from your network today. Please call us, or try again tomorrow');
    end if;
  end if;
  if not private.is_email(new.email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  elsif private.visible_length(left(new.name, 300)) = 0 then
    perform private.refuse(400, 'name_invalid', 'Please enter your name');
  elsif private.visible_length(left(new.message, 10000)) = 0 then
    perform private.refuse(400, 'message_invalid', 'Please write a message');
  end if;
  return new;
end
$$;

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, event_key text) returns jsonb
language plpgsql stable set search_path = '' as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.event_key);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', array(
      select jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
      from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
    ),
    'payment', (
      select jsonb_build_object(
        'charge_cents', p.charge_cents, 'receipt', p.receipt, 'paid_at', p.completed_at,
        'refund_receipt', p.refund_receipt
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.event_key = '' then not p.needs_refund
          -- Merged payments have one refund.
          else exists (select from public.refunds as r where r.id::text = message_facts.event_key and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts is
  'Values of a message''s placeholders. payment: the one that paid the order, or whose refund is the event_key. Newsletter mails: the shop and the subscription.';

create or replace function private.read_person(identifier text, out email text, out phone text)
language plpgsql immutable set search_path = '' as $$
begin
  if octet_length(read_person.identifier) <= 1016 and private.is_email(trim(read_person.identifier)) then
    email := lower(trim(read_person.identifier));
  else
    phone := private.normalised_phone(read_person.identifier);
  end if;
  if email is null and phone is null then
    perform private.refuse(400, 'person_invalid', 'Please enter a Kenyan mobile number or an email address');
  end if;
end
$$;

comment on function private.read_person is 'A person as email address in lower case, or phone as +254…. Refuses other texts.';

create or replace function public.export_person(identifier text) returns jsonb
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  answer jsonb;
begin
  perform private.expect_staff();
  select * into person from private.read_person(export_person.identifier);
  person_key := coalesce(person.email, person.phone);
  order_ids := array(
    select o.id from public.orders as o
    where lower(o.customer_email) = person.email or o.customer_phone = person.phone
    order by o.created_at desc, o.id
  );
  answer := jsonb_build_object(
    'identifier', person_key,
    'exported_at', now(),
    'shop', (select s.store_name from public.store_settings as s),
    'orders', array(
      select jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'tracking_number', o.tracking_number, 'created_at', o.created_at,
        'status', o.status, 'payment_status', o.payment_status,
        'customer_name', o.customer_name, 'customer_email', o.customer_email, 'customer_phone', o.customer_phone,
        'shipping_address', o.shipping_address, 'city', o.city, 'delivery_notes', o.delivery_notes,
        'delivery_fee', o.delivery_fee, 'total_amount', o.total_amount,
        'erasure_requested_at', o.erasure_requested_at,
        'reason_to_keep', private.retention_reason(o.id),
        'items', array(
          select jsonb_build_object('product', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
          from public.order_items as i where i.order_id = o.id order by i.created_at, i.id
        ),
        'payments', array(
          select private.describe_payment(p) from public.payments as p where p.order_id = o.id order by p.created_at
        ),
        -- Who delivered is another person's data.
        'delivery', (
          select jsonb_build_object(
            'status', d.delivery_status, 'notes', d.delivery_notes, 'pickup_time', d.pickup_time, 'delivery_time', d.delivery_time
          )
          from public.deliveries as d where d.order_id = o.id
        ),
        'history', array(
          select jsonb_build_object('what', e.kind, 'by', e.actor, 'at', e.happened_at)
          from public.order_events as e where e.order_id = o.id order by e.id
        ),
        'messages', array(
          select private.describe_message(m) from public.outbox_messages as m where m.order_id = o.id order by m.created_at
        )
      )
      from public.orders as o where o.id = any (order_ids) order by o.created_at desc, o.id
    ),
    'payments_for_others', array(
      select private.describe_payment(p)
      from public.payments as p
      where p.phone = person.phone and p.purpose = 'order' and p.order_id <> all (order_ids)
      order by p.created_at
    ),
    'inquiries', array(
      select to_jsonb(i) - 'id' - 'is_read'
      from public.inquiries as i
      where lower(i.email) = person.email or private.normalised_phone(i.phone) = person.phone
      order by i.created_at desc
    ),
    'newsletter', (
      select jsonb_build_object('email', n.email, 'created_at', n.created_at, 'confirmed_at', n.confirmed_at)
      from public.newsletter_subscriptions as n where lower(n.email) = person.email
    ),
    'newsletter_mails', array(
      select private.describe_message(m)
      from public.outbox_messages as m where m.order_id is null and lower(m.recipient) = person.email order by m.created_at
    ),
    -- Other phones and email addresses of the same customer, for separate requests.
    'also_used', array(
      select distinct other.identifier
      from public.orders as o
      cross join lateral (values (lower(o.customer_email)), (o.customer_phone)) as other (identifier)
      where o.id = any (order_ids) and other.identifier <> '' and other.identifier <> person_key
      order by other.identifier
    ),
    'earlier_requests', array(
      select jsonb_build_object('kind', r.kind, 'requested_at', r.requested_at, 'counts', r.counts)
      from public.personal_data_requests as r
      where r.person_hash = private.hash_person(person_key) and r.kind = 'erasure'
      order by r.id desc
    )
  );
  perform private.log_personal_data_request('export', person_key, jsonb_build_object(
    'orders', cardinality(order_ids), 'payments_for_others', jsonb_array_length(answer -> 'payments_for_others'),
    'inquiries', jsonb_array_length(answer -> 'inquiries'),
    'newsletter', case when answer ->> 'newsletter' is null then 0 else 1 end
  ));
  return answer;
end
$$;

comment on function public.export_person is
  'For staff: everything stored about a phone (in any Kenyan format) or email address. Amounts in cents. reason_to_keep: why an order cannot be anonymised yet. Logged. Returns jsonb: a document to hand over, which no program reads in whole.';

create or replace function public.erase_person(identifier text) returns public.erasure
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  person record;
  person_key text;
  order_ids uuid[];
  closed uuid[];
  erased public.erased_counts;
  postponed public.postponed_order[];
begin
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  person_key := coalesce(person.email, person.phone);
  -- Lock the orders first, by id, against deadlocks.
  order_ids := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and (lower(o.customer_email) = person.email or o.customer_phone = person.phone
      or exists (select from public.payments as p where p.order_id = o.id and p.phone = person.phone))
    order by o.id
    for no key update
  );

  closed := array(
    select o.id from public.orders as o
    where o.id = any (order_ids) and (lower(o.customer_email) = person.email or o.customer_phone = person.phone)
      and private.retention_reason(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased.orders := cardinality(closed);
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.retention_reason(p.order_id) is null;
  get diagnostics erased.payments_for_others = row_count;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.retention_reason(e.order_id) is null;
  update public.payments as p set phone = ''
  where p.purpose = 'test' and p.phone = person.phone and p.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.normalised_phone(i.phone) = person.phone;
  get diagnostics erased.inquiries = row_count;
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics erased.newsletter = row_count;

  postponed := array(
    select (
      o.id, o.order_number, private.retention_reason(o.id),
      coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
    )::public.postponed_order
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.retention_reason(o.id) is not null
    order by o.created_at desc
  );
  perform private.log_personal_data_request(
    'erasure', person_key, to_jsonb(erased) || jsonb_build_object('postponed', cardinality(postponed))
  );
  return (person_key, erased, postponed)::public.erasure;
end
$$;

comment on function public.erase_person is
  'For staff: anonymises the orders of a phone or email address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason: own ones (is_own) are anonymised once they are closed, others need another request. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

-- Execution rights
grant execute on function public.export_person, public.erase_person to authenticated, service_role;

create or replace function private.after_product_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (old.id, old.name, old.tagline, old.description, old.category, old.brand, old.is_active, old.created_at,
      old.previous_price is null)
    is distinct from
    (new.id, new.name, new.tagline, new.description, new.category, new.brand, new.is_active, new.created_at,
      new.previous_price is null)
  then
    perform private.refuse_blank('a product has a name', new.name);
    perform private.update_product_search(old, new);
    perform private.count_active_products(old, new);
  end if;
  -- Of the stock, pages only show whether there is any.
  if (old.name, old.slug, old.tagline, old.description, old.price, old.previous_price, old.image_url, old.category,
      old.brand, old.is_active, old.home_section, old.home_position, old.stock_quantity = 0)
    is distinct from
    (new.name, new.slug, new.tagline, new.description, new.price, new.previous_price, new.image_url, new.category,
      new.brand, new.is_active, new.home_section, new.home_position, new.stock_quantity = 0)
  then
    perform private.announce_product_change(old, new);
  end if;
  return null;
end
$$;

create or replace function private.before_category_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.refuse_blank('a category has a name', new.name);
  new.name := trim(regexp_replace(new.name, '\s+', ' ', 'g'));
  if tg_op = 'UPDATE' and old.name <> new.name then
    -- The foreign key updates its products in any order: lock them by id first, as orders do.
    perform from public.products as p where p.category = old.name order by p.id for update;
  end if;
  return new;
end
$$;

create or replace function private.before_settings_change() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.refuse_blank('the store has a name', new.store_name);
  if old.support_email is distinct from new.support_email and not private.is_email(new.support_email) then
    raise exception using
      errcode = 'check_violation',
      message = 'new row for relation "store_settings" violates the rule "the support address is an e-mail address"',
      constraint = 'the support address is an e-mail address';
  end if;
  new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  return new;
end
$$;

-- Rows. Texts to customers name the tracking number, which is longer than the order number: these two would not fit one SMS. A text that
-- staff edited stays.
update public.message_templates as t
set body = case when t.body = t.default_body then short.body else t.body end, default_body = short.body
from (values
  ('order_payment_held', '{shop}: {paid} received[, {receipt}], {order} needs a check. We will call you. {link}'),
  ('order_refunded', '{shop}: {refunded} for {order} was sent back to the phone that paid[, {refund_receipt}]. {link}')
) as short (kind, body)
where t.kind = short.kind and t.channel = 'text';
