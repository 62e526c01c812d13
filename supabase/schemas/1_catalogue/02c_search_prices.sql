-- Prices in a product search (docs/decisions/search.md).

create function private.price_as_figures(typed text) returns text
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

create function private.split_price(folded text, out words text, out most_cents integer)
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
