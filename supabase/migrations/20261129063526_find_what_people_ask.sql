-- Earlier versions of the program keep working during the update: search functions keep their names, arguments and results, and words that
-- staff saved stay as they are.

create or replace function private.fold_text(written text) returns text
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

create or replace function private.price_as_figures(typed text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  digits constant text[] := '{moja,mbili,tatu,nne,tano,sita,saba,nane,tisa}';
  figures text := lower(typed);
  spoken text[] := regexp_match(figures, format('\m(mia|elfu) (%s)\M', array_to_string(digits, '|')));
begin
  if spoken is not null then
    figures := replace(
      figures, array_to_string(spoken, ' '),
      array_position(digits, spoken[2]) || case spoken[1] when 'mia' then '00' else '000' end || ' bob'
    );
  end if;
  figures := regexp_replace(figures, '\m(\d{1,3})k\M', '\1000 bob', 'g');
  -- 700/= and 700/- name a price, <700 limits it, and so does the end of a range, unless it is of sizes.
  figures := regexp_replace(figures, '(\d) ?/[=-]', '\1 bob', 'g');
  figures := regexp_replace(figures, '[<≤] ?(\d)', 'under \1', 'g');
  return regexp_replace(
    figures, '\m(?:between )?(?:kshs? ?|kes ?)?[1-9]\d{2,4} ?(?:-|–|to|and|hadi) ?((?:kshs? ?|kes ?)?[1-9]\d{2,4})\M(?! ?(?:ml|mls|cl|l)\M)(?!-)',
    'under \1', 'g'
  );
end
$$;

comment on function private.price_as_figures is
  'A search whose price is written in figures: mia saba and 700/= are 700 bob, 1k is 1000 bob, 500-800 is under 800. The caller bounds the length.';

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
create or replace function private.read_search(search text) returns private.search_terms
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

-- New words, as far as there is space for them (at most 500) and staff have not listed them.
insert into public.search_synonyms (word, means)
select n.word, n.means
from (
  select word, '' as means from unnest(array[
    'bulk', 'carton', 'crate', 'deliver', 'delivery fee', 'delivery time', 'how long', 'jumla', 'list', 'ngapi', 'pesa ngapi', 'size',
    'wholesale'
  ]) as meaningless (word)
  union all
  select word, known.means
  from (values
    ('330ml', array['smallest']),
    ('750ml', array['1 litre', '1l', 'biggest', 'litre']),
    ('lemon', array['limao']),
    ('sugary', array['no sugar', 'sugar free', 'sugarless', 'without sugar'])
  ) as known (means, words), unnest(words) as word
) as n
where not exists (select from public.search_synonyms as s where s.stem = private.stem_text(n.word))
order by n.word
limit greatest(0, 500 - (select count(*) from public.search_synonyms));

-- 500mls is indexed as 500ml now.
delete from private.searchable_products as s
using public.products as p
where p.id = s.product_id and concat_ws(' ', p.name, p.tagline, p.description) ~* '\d\s*mls\M';
select private.index_product(p) from public.products as p
where p.is_active and concat_ws(' ', p.name, p.tagline, p.description) ~* '\d\s*mls\M';
