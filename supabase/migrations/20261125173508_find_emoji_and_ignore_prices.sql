create or replace function private.fold_text(written text) returns text
language sql immutable set search_path = '' as $$
  select trim(regexp_replace(
    regexp_replace(
      -- Accents are their own characters after NFKD: the first range removes them, with apostrophes and the variants of emoji.
      regexp_replace(lower(normalize(written, nfkd)), '[\u0300-\u036f\ufe0f''’]', '', 'g'),
      -- A size is one word: 500 ml is 500ml.
      '(\d)\s+(ml|cl|l|g|kg)\M', '\1\2', 'g'
    ),
    '[^a-z0-9\u0080-\U0010ffff]+', ' ', 'g'
  ));
$$;

comment on function private.fold_text is
  'Searchable form of a text: lower case, no accents or punctuation, single spaces. The caller bounds the length.';

-- The number of corrected and compared words, indexes and the number of synonyms bound the cost of a search (docs/decisions/search.md).
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
  folded := private.fold_text(left(search, 100));
  -- A price matches every drink: "500 bob" is no size.
  if folded ~ price then
    folded := trim(regexp_replace(folded, price, '', 'g'));
    exact_words := '';
  end if;
  -- Some characters fold to several.
  words := (string_to_array(left(folded, 200), ' '))[1:10];
  max_similar := greatest(4, 40 / greatest(coalesce(cardinality(words), 0), 2));
  is_misspelt := false;
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
  correction := array_to_string(corrected, ' ');
end
$$;

comment on function private.read_search is
  'Parses a search. all_words: every word, as typed or similar; null if all words match every drink. exact_words: any word as typed or its meaning. any_words: any word, or similar. correction: the text with typing errors corrected. is_misspelt: whether a word is in no product.';

insert into public.search_synonyms (word, means) values
  ('bob', ''),
  ('ksh', ''),
  ('🥭', 'mango'),
  ('🍍', 'pineapple'),
  ('🍋', 'lemon'),
  ('🍉', 'watermelon'),
  ('🥥', 'coconut'),
  ('🍇', 'blackcurrant'),
  ('🌺', 'hibiscus'),
  ('🫚', 'ginger'),
  ('🌿', 'khat mint'),
  ('🧃', ''),
  ('🥤', ''),
  ('🍹', '')
on conflict do nothing;
