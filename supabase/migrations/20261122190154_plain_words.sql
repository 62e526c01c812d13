alter function private.tell_order_event(uuid, text, text, jsonb) rename to record_order_event;

alter function private.told_status(text) rename to shown_status;

create or replace function private.masked_phone(phone text) returns text
language sql immutable
set search_path = ''
as $$
  -- Not its end: the last four digits open an order.
  select case
    when phone ~ '^\+254\d{9}$' then '0' || substr(phone, 5, 3) || ' ••• •••'
    else '•••'
  end;
$$;

create or replace function private.refuse(status integer, code text, message text, hint text default null) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- PT4xx becomes the HTTP status of the response; the detail is the error code.
  raise exception using errcode = 'PT' || status, message = message, detail = code, hint = coalesce(hint, '');
end
$$;

comment on function private.refuse(integer, text, text, text) is 'Ends the request with a status, a code for programs and a sentence for people.';

create or replace function public.is_admin() returns boolean
language sql stable security definer
set search_path = ''
as $$
  select exists (
    select from public.admin_profiles as profile
    join auth.users as account on account.id = profile.user_id
    where profile.user_id = (select auth.uid()) and profile.is_active
      and account.deleted_at is null and (account.banned_until is null or account.banned_until <= now())
  ) and (
    (select auth.jwt() ->> 'aal') is not distinct from 'aal2'
    or not exists (
      select from auth.mfa_factors where user_id = (select auth.uid()) and status = 'verified'
    )
  ) and (
    -- A token outlives its session by up to an hour; staff rights end with the session. A session whose refresh token was
    -- stolen keeps its row but has ended.
    (select auth.jwt() ->> 'session_id') is null
    or exists (
      select from auth.sessions as session
      where session.id = (select (auth.jwt() ->> 'session_id')::uuid) and session.user_id = (select auth.uid())
        and (session.not_after is null or session.not_after > now())
    )
  );
$$;

comment on function public.is_admin() is
  'Whether the request comes from active staff, neither banned nor deleted, in a session that goes on, who have passed their second factor if they have one. Every staff policy asks this.';

grant execute on function public.is_admin() to authenticated, service_role;

-- For security definer functions that act for staff.
create or replace function private.expect_staff() returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if not (public.is_admin() or (select auth.role()) is not distinct from 'service_role') then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
end
$$;

comment on function private.expect_staff() is 'Refuses callers other than staff and the shop itself.';

create or replace function private.expect_member() returns uuid
language plpgsql stable
set search_path = ''
as $$
begin
  if not public.is_admin() or (select auth.uid()) is null then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  return (select auth.uid());
end
$$;

comment on function private.expect_member() is 'The calling staff member; refuses all other callers, the shop itself included.';

create or replace function public.register_storefront(token_hash text) returns void
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into private.storefront_tokens as known (token_hash)
  values (register_storefront.token_hash)
  on conflict (token_hash) do update set registered_at = now();
  -- Keys are replaced now and then: servers with one of the last few keep working.
  delete from private.storefront_tokens as known
  where known.token_hash not in (
    select latest.token_hash from private.storefront_tokens as latest order by latest.registered_at desc limit 5
  );
end
$$;

comment on function public.register_storefront(text) is
  'Accepts the visitor addresses that a server names with the token of this hash. The five hashes used last count.';

grant execute on function public.register_storefront(text) to service_role;

create or replace function private.request_address() returns text
language plpgsql stable security definer
set search_path = ''
as $$
declare
  headers jsonb := nullif(current_setting('request.headers', true), '')::jsonb;
  visitor text := left(headers ->> 'x-visitor-address', 100);
begin
  if coalesce((select auth.role()), '') = 'service_role' then
    return visitor;
  end if;
  if visitor is not null and exists (
    select from private.storefront_tokens as known
    where known.token_hash = encode(sha256(convert_to(left(headers ->> 'x-visitor-token', 100), 'UTF8')), 'hex')
  ) then
    return visitor;
  end if;
  -- An IP address with its zone has at most 100 characters.
  return coalesce(
    left(headers ->> 'cf-connecting-ip', 100),
    split_part(right(rtrim(headers ->> 'x-forwarded-for'), 100), ',', -1)
  );
end
$$;

comment on function private.request_address() is
  'The IP address of the request, from sources that its client cannot write: the visitor whom a server of the shop names with its token or with the secret key; cf-connecting-ip, which a hosted project''s network sets and our own server removes; the last address of x-forwarded-for, which the nearest proxy added. Null for calls of the shop itself.';

-- The cost of a search is bounded by the number of words that it corrects and compares, by indexes and by the number of synonyms,
-- which every search reads. docs/decisions/search.md
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
  -- The more words, the fewer near words for each; only the first unknown words are corrected. So the cost does not grow with the text.
  most_near integer;
  mended integer := 0;
begin
  folded := private.fold_text(left(search, 100));
  -- Some characters fold to several.
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

comment on function private.read_search(text) is
  'What a search asks for. all_words: each word, as typed or near it; null when all of them stand for any drink. exact_words: any word as typed or by its meaning; any_words: any word, near ones too. correction: the words with typing errors mended; is_misspelt: whether a word of it was in no product.';

create or replace function private.ranked_products(
  candidates tid[],
  folded text,
  exact_words tsquery,
  any_words tsquery,
  most integer
) returns uuid[]
language sql stable
set search_path = ''
as $$
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

comment on function private.ranked_products(tid[], text, tsquery, tsquery, integer) is
  'The best of some searchable products: the exact name, names that begin with the search, then by the words and where they are, then the newest.';

create or replace function public.search_products(search text default '', page_size integer default 50) returns setof public.products
language plpgsql stable security definer rows 50
set search_path = ''
set enable_seqscan = off
set jit = off
-- Finds a few products by id: without statistics the planner would scan the table to join them.
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  most integer := least(greatest(coalesce(search_products.page_size, 50), 1), 1000);
  -- At most this many matches are ranked; of more, the newest.
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
    -- Some of the words, where hardly any product matches all of them.
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
  -- No word narrows the search: every drink, newest first.
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

comment on function public.search_products(text, integer) is
  'Active products that match a search, best first: word by word in name, flavour, brand, tagline and description, with synonyms, word beginnings and typing errors. A blank search gives the newest. Reads 100 characters and 10 words; gives 1 to 1000 rows.';

grant execute on function public.search_products(text, integer) to anon, authenticated, service_role;

create or replace function private.draw_tracking_number(attempt integer) returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  -- Four digits while a free number is easily found; when most of the day's are taken, five.
  return 'JJ-' || to_char(now() at time zone 'Africa/Nairobi', 'YYYYMMDD') || '-' ||
    case when attempt <= 20 then 1000 + floor(random() * 9000)::integer else 10000 + floor(random() * 90000)::integer end;
end
$$;

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
as $$
#variable_conflict use_column
declare
  -- Counted before the subtransaction of the block below, so that a refusal does not roll it back.
  is_within_limit boolean := private.count_call('place_order');
  longest constant integer := 4000;
  name text;
  email text;
  phone text;
  location text;
  building_name text;
  unit_name text;
  notes text;
  address text;
  fingerprint text;
  earlier private.order_keys;
  settings public.store_settings;
  product public.products;
  total bigint;
  refusal jsonb;
  new_order public.orders;
  drawn text;
  -- Unpaid orders of visitors are limited by these; staff and the shop itself have none.
  networks text[] := case
    when coalesce((select auth.role()), '') = 'service_role' or public.is_admin() then '{}'
    else private.caller_networks()
  end;
  is_held boolean;
  expires_at timestamptz;
  refusal_details text;
  refusal_hint text;
begin
  if not is_within_limit then
    perform private.refuse(429, 'too_many_orders', 'Too many orders from your network. Please try again in a few minutes');
  end if;
  if place_order.idempotency_key is null then
    perform private.refuse(400, 'idempotency_key_missing', 'The order has no idempotency key');
  end if;

  -- octet_length does not read the text: no longer text is trimmed, matched or counted.
  if octet_length(place_order.customer_name) > longest then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  elsif octet_length(place_order.customer_email) > longest then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  elsif greatest(
    octet_length(place_order.delivery_location), octet_length(place_order.building), octet_length(place_order.unit)
  ) > longest then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  elsif octet_length(place_order.delivery_notes) > longest then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  name := trim(place_order.customer_name);
  email := trim(place_order.customer_email);
  phone := private.normalised_phone(place_order.customer_phone);
  location := trim(place_order.delivery_location);
  building_name := nullif(trim(place_order.building), '');
  unit_name := nullif(trim(place_order.unit), '');
  -- Line feeds stay; other control characters become spaces.
  notes := nullif(trim(regexp_replace(place_order.delivery_notes, '[\u0001-\u0009\u000b-\u001f\u007f-\u009f]', ' ', 'g')), '');

  -- Names and addresses appear in messages to customers: single lines without control or bidirectional characters.
  if name is null or char_length(name) < 2 or private.has_control_signs(name) then
    perform private.refuse(400, 'name_invalid', 'Please enter a valid name (at least 2 characters)');
  end if;
  if char_length(name) > 120 then
    perform private.refuse(400, 'name_too_long', 'The name is longer than 120 characters');
  end if;
  if char_length(email) > 254 then
    perform private.refuse(400, 'email_too_long', 'The email address is longer than 254 characters');
  end if;
  if not private.is_email(email) or private.has_control_signs(email) then
    perform private.refuse(400, 'email_invalid', 'Please enter a valid email address');
  end if;
  if phone is null then
    perform private.refuse(400, 'phone_invalid',
      'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)');
  end if;
  if location is null or char_length(location) < 3
    or private.has_control_signs(location || coalesce(building_name, '') || coalesce(unit_name, ''))
  then
    perform private.refuse(400, 'location_invalid', 'Please enter a valid delivery location');
  end if;
  if char_length(location) > 200 or char_length(building_name) > 120 or char_length(unit_name) > 60 then
    perform private.refuse(400, 'address_too_long', 'The delivery address is too long');
  end if;
  if char_length(notes) > 500 then
    perform private.refuse(400, 'notes_too_long', 'The delivery notes are longer than 500 characters');
  end if;
  if place_order.quantity is null or place_order.quantity < 1 then
    perform private.refuse(400, 'quantity_invalid', 'The quantity must be at least 1');
  end if;

  address := location
    || coalesce(', Building: ' || building_name, '')
    || coalesce(', Unit: ' || unit_name, '');
  fingerprint := encode(sha256(convert_to(
    jsonb_build_array(place_order.product_id, place_order.quantity, name, email, phone, address, notes, place_order.expected_total)::text,
    'UTF8'
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
    perform private.refuse(400, 'terms_not_accepted',
      'Please confirm that you are 18 or older and accept our terms and privacy notice');
  end if;
  perform private.expect_few_unpaid_orders(networks, phone, settings.unpaid_orders_per_phone);

  select * into product from public.products as p where p.id = place_order.product_id and p.is_active for no key update;
  if not found then
    perform private.refuse(404, 'product_unavailable', 'This product is not available');
  elsif product.stock_quantity = 0 then
    perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
  elsif product.stock_quantity < place_order.quantity then
    perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', product.stock_quantity),
      product.stock_quantity::text);
  end if;

  total := product.price::bigint * place_order.quantity + settings.delivery_fee;
  if total > 2000000000 then
    perform private.refuse(400, 'total_too_large', 'The total is too large for one order');
  end if;
  if place_order.expected_total is distinct from total then
    perform private.refuse(409, 'total_changed',
      'The price has changed since you opened this page. Please check the new total', total::text);
  end if;

  is_held := private.may_hold_units(
    networks, product.id, place_order.quantity, product.stock_quantity, settings.reserved_share_percent
  );
  if is_held then
    update public.products as p set stock_quantity = p.stock_quantity - place_order.quantity where p.id = product.id;
  end if;
  expires_at := now() + make_interval(mins => settings.reservation_minutes);
  for attempt in 1 .. 60 loop
    drawn := private.draw_tracking_number(attempt);
    insert into public.orders (
      tracking_number, customer_name, customer_email, customer_phone, shipping_address, delivery_notes,
      delivery_fee, total_amount, reserved_until, expires_at, expiry_limit, terms_accepted_at, accepted_terms
    ) values (
      drawn, name, email, phone, address, notes,
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
    exit when found;
  end loop;
  if new_order.id is null then
    perform private.refuse(503, 'no_tracking_number', 'No tracking number could be drawn. Please try again');
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
  -- The current figures, so that a form can show what changed.
  if product.id is not null then
    refusal := refusal || jsonb_build_object('quote', jsonb_build_object(
      'price', product.price,
      'delivery_fee', settings.delivery_fee,
      'total', product.price::bigint * place_order.quantity + settings.delivery_fee,
      'units_left', product.stock_quantity
    ));
  end if;
  return refusal;
end
$$;

comment on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean) is
  'Places an order in one transaction: price and fee from the database, tracking number drawn, units held (reserved_until) unless too many are held unpaid. The same key again returns the same order. A refusal carries quote: price, delivery_fee, total and units_left of this moment.';

revoke execute on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean) from public;

grant execute on function public.place_order(uuid, uuid, integer, text, text, text, text, integer, text, text, text, boolean)
  to anon, authenticated, service_role;

-- Reads only orders that are due.
create or replace function public.expire_reservations() returns integer
language plpgsql security definer
set search_path = ''
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  due uuid[];
  ended public.orders;
begin
  perform pg_advisory_xact_lock(hashtext('expire_reservations'));
  perform private.end_reviews();
  -- Each kind has an index of its own, so that a run without due orders reads nothing.
  select array_agg(found.id) into due from (
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.expires_at <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.expires_at limit 200
    )
    union
    (
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'pending' and o.reserved_until <= now()
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.reserved_until limit 200
    )
    union
    (
      -- Orders that staff cancelled return their units, too.
      select o.id from public.orders as o
      where o.payment_status = 'unpaid' and o.status = 'cancelled' and o.reserved_until is not null
        and not private.is_paying(o.id, o.expiry_limit)
      order by o.id limit 200
    )
  ) as found;
  if due is null then
    return 0;
  end if;
  select array_agg(o.id) into due from (
    select o.id from public.orders as o
    where o.id = any (due) and o.payment_status = 'unpaid'
      and (
        (o.status = 'pending' and (o.expires_at <= now() or o.reserved_until <= now()))
        or (o.status = 'cancelled' and o.reserved_until is not null)
      )
    for update skip locked
  ) as o;
  -- Checked again under the lock: a payment may have begun in the meantime.
  select coalesce(array_agg(o.id order by o.id), '{}') into due
  from public.orders as o
  where o.id = any (due) and not private.is_paying(o.id, o.expiry_limit);
  -- Lock all products before the first changes, as renaming a category does.
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = any (due))
  order by p.id
  for update;
  for ended in select * from public.orders as o where o.id = any (due) order by o.id loop
    if ended.reserved_until is not null then
      perform private.return_units(ended.id);
    end if;
    -- A hold for a prompt ends before its order does.
    update public.orders as o
    set reserved_until = null,
        status = case when o.status = 'cancelled' or o.expires_at <= now() then 'cancelled' else o.status end,
        expires_at = case when o.status = 'cancelled' or o.expires_at <= now() then null else o.expires_at end,
        updated_at = now()
    where o.id = ended.id;
  end loop;
  return cardinality(due);
end
$$;

comment on function public.expire_reservations() is
  'Ends what has run out: cancels unpaid orders at expires_at, and gives units back at reserved_until and after a cancellation. Not while staff look at a payment, nor during an open prompt until expiry_limit. Returns how many orders.';

grant execute on function public.expire_reservations() to service_role;

create or replace function private.take_units(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- Lock products by id, so that two orders of the same products cannot deadlock.
  perform from public.products as p
  join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
  order by p.id
  for update of p;
  if exists (
    select from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = take_units.order_id
    group by p.id
    having p.stock_quantity < sum(i.quantity)
  ) then
    perform private.refuse(409, 'units_sold_meanwhile',
      'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
  end if;
  update public.products as p
  set stock_quantity = p.stock_quantity - i.quantity
  from public.order_items as i
  where i.order_id = take_units.order_id and p.id = i.product_id;
end
$$;

comment on function private.take_units(uuid) is 'Takes an order''s units out of stock again. The order''s row must be locked.';

create or replace function private.move_units_with_status(old public.orders, new public.orders) returns public.orders
language plpgsql
set search_path = ''
as $$
declare
  minutes interval;
begin
  if new.status = 'cancelled' then
    -- Units that have left the shop are not returned automatically.
    if new.payment_status in ('paid', 'refunded') and new.units_returned_at is null and old.status in ('pending', 'processing') then
      perform private.return_units(new.id);
      new.units_returned_at := now();
    end if;
  elsif new.payment_status in ('paid', 'refunded') and new.units_returned_at is not null then
    perform private.take_units(new.id);
    new.units_returned_at := null;
  elsif new.payment_status = 'unpaid' and new.reserved_until is null then
    perform private.take_units(new.id);
    select make_interval(mins => s.reservation_minutes) into minutes from public.store_settings as s;
    new.expires_at := now() + minutes;
    new.reserved_until := new.expires_at;
    new.expiry_limit := now() + 2 * minutes;
    new.extended_at := null;
  end if;
  return new;
end
$$;

create or replace function private.end_reviews() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  looked_at record;
  minutes interval := (select make_interval(mins => s.reservation_minutes) from public.store_settings as s);
begin
  for looked_at in
    select o.id as order_id, p.id as payment_id
    from public.payments as p
    join public.orders as o on o.id = p.order_id
    where p.status = 'review' and (
      case
        when exists (select from public.mpesa_transactions as t where t.attempt_id = p.id) then not exists (
          -- The money is settled once it belongs to another payment, was refunded, or was noted.
          select from public.mpesa_transactions as t
          where t.attempt_id = p.id and t.payment_id is null and coalesce(t.resolution, '') not in ('accepted', 'not_an_order')
            and not exists (select from public.refunds as r where r.receipt = t.receipt and r.status = 'completed')
        )
        else 'accepted' = (
          select e.kind from public.reconciliation_events as e where e.payment_id = p.id order by e.id desc limit 1
        )
      end
    )
    order by o.id
    for update of o skip locked
  loop
    -- The time of the message stays: it decides the day in the books.
    update public.payments as p set status = 'failed' where p.id = looked_at.payment_id and p.status = 'review';
    -- The customer waited for staff and gets the time of a new order to pay again.
    update public.orders as o
    set expires_at = greatest(o.expires_at, now() + minutes),
        reserved_until = case when o.reserved_until is not null then greatest(o.expires_at, now() + minutes) end,
        expiry_limit = greatest(o.expiry_limit, now() + 2 * minutes),
        extended_at = null
    where o.id = looked_at.order_id and o.payment_status = 'unpaid' and o.status <> 'cancelled';
  end loop;
end
$$;

comment on function private.end_reviews() is
  'Ends the attempts under review whose money staff have dealt with. A success that comes later still supersedes it.';

create or replace function private.count_held_units(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
declare
  was_held boolean := old.payment_status = 'unpaid' and old.reserved_until is not null and old.status in ('pending', 'cancelled');
  is_held boolean := new.id is not null
    and new.payment_status = 'unpaid' and new.reserved_until is not null and new.status in ('pending', 'cancelled');
begin
  if is_held and not was_held then
    insert into private.held_units as known (product_id, quantity)
    select i.product_id, sum(i.quantity)
    from public.order_items as i
    where i.order_id = new.id and i.product_id is not null
    group by i.product_id
    order by i.product_id
    on conflict (product_id) do update set quantity = known.quantity + excluded.quantity;
  elsif was_held and not is_held then
    update private.held_units as known
    set quantity = known.quantity - held.quantity
    from (
      select i.product_id, sum(i.quantity) as quantity
      from public.order_items as i
      where i.order_id = old.id
      group by i.product_id
    ) as held
    where known.product_id = held.product_id;
  end if;
  if new.id is null then
    return;
  end if;

  -- Paid orders, and unpaid ones that staff hand over, count towards no limit.
  if new.payment_status <> 'unpaid' or new.status not in ('pending', 'cancelled') then
    delete from private.order_networks as k where k.order_id = new.id;
  else
    update private.order_networks as k
    set is_open = new.status = 'pending',
        taken = k.taken + case
          when is_held and not was_held then coalesce((
            select sum(i.quantity) from public.order_items as i where i.order_id = new.id and i.product_id = k.product_id
          ), 0)
          else 0
        end,
        ended_at = case when not is_held then coalesce(k.ended_at, now()) end
    where k.order_id = new.id;
  end if;
end
$$;

create or replace function private.is_within_units(networks text[], product_id uuid, quantity integer, allowed bigint) returns boolean
language plpgsql stable
set search_path = ''
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  return not exists (
    select from unnest(networks) as caller (network)
    where is_within_units.quantity + (
      select coalesce(sum(k.taken), 0)
      from private.order_networks as k
      where k.network = caller.network and k.product_id = is_within_units.product_id
        and (k.ended_at is null or k.ended_at > now() - interval '1 hour')
    )
    -- Two drinks can always be ordered, and one drink again by a slow customer. A wider network has twice as much, not eight
    -- times: units are few, and an order without a hold can still be paid.
    > greatest(2, is_within_units.allowed * least(private.allowance_factor(caller.network), 2))
  );
end
$$;

comment on function private.is_within_units(text[], uuid, integer, bigint) is
  'Whether each network may hold that many more units of a product: with what it holds unpaid, or held and did not pay within the last hour, it stays within allowed units (a /56 and wider: twice).';

create or replace function private.reserve_for_prompt(order_id uuid) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  prompt_time constant interval := '5 minutes';
  waiting public.orders;
  item record;
  networks text[];
  may_hold boolean := true;
begin
  select * into waiting from public.orders as o where o.id = reserve_for_prompt.order_id for update;
  -- Handing an unpaid order over has taken its units already.
  if not found or waiting.payment_status <> 'unpaid' or waiting.status <> 'pending' then
    return;
  end if;
  if waiting.extended_at is null and waiting.expires_at < least(now() + prompt_time, waiting.expiry_limit) then
    update public.orders as o
    set expires_at = least(now() + prompt_time, o.expiry_limit),
        reserved_until = case when o.reserved_until is not null then least(now() + prompt_time, o.expiry_limit) end,
        extended_at = now()
    where o.id = waiting.id
    returning * into waiting;
  end if;
  if waiting.expires_at <= now() then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  if waiting.reserved_until is not null then
    return;
  end if;

  select coalesce(array_agg(k.network), '{}') into networks from private.order_networks as k where k.order_id = waiting.id;
  perform from public.products as p
  where p.id in (select i.product_id from public.order_items as i where i.order_id = waiting.id)
  order by p.id
  for no key update;
  for item in
    select p.id as product_id, coalesce(p.stock_quantity, 0) as units_left, i.quantity, coalesce(h.quantity, 0) as held
    from public.order_items as i
    left join public.products as p on p.id = i.product_id and p.is_active
    left join private.held_units as h on h.product_id = p.id
    where i.order_id = waiting.id
  loop
    if item.product_id is null then
      perform private.refuse(404, 'product_unavailable', 'This product is not available');
    elsif item.units_left = 0 then
      perform private.refuse(409, 'out_of_stock', 'This product is out of stock');
    elsif item.units_left < item.quantity then
      perform private.refuse(409, 'not_enough_stock', format('Only %s left in stock', item.units_left), item.units_left::text);
    end if;
    -- Everything there is, and once more for a customer who was too slow.
    may_hold := may_hold
      and private.is_within_units(networks, item.product_id, item.quantity, 2 * (item.units_left::bigint + item.held));
  end loop;
  -- Beyond that the prompt is sent without a hold, so that others of the same network cannot keep a customer from paying. Units that
  -- are sold before the money arrives are handled as with late money.
  if may_hold then
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = waiting.id and p.id = i.product_id;
    update public.orders as o
    set reserved_until = least(now() + prompt_time, o.expires_at)
    where o.id = waiting.id;
  end if;
end
$$;

comment on function private.reserve_for_prompt(uuid) is
  'Before a prompt is sent for an unpaid order: takes its units for five minutes where it holds none, and moves its expiry once to five minutes from now. Refuses (product_unavailable, out_of_stock, not_enough_stock, order_cancelled) when it cannot be paid any more.';

-- What a tracking number, an access key or the digits of a phone show of an order (docs/decisions/what-a-tracking-number-shows.md).

create or replace function private.shown_status(status text) returns text
language sql immutable
set search_path = ''
return case status when 'shipped' then 'out_for_delivery' else status end;

comment on function private.shown_status(text) is 'An order status in the storefront''s words.';

create or replace function private.notify_order_followers(changed public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- No personal data, since anyone may join the second channel; and not the id, since it allows paying.
  perform realtime.send(
    jsonb_build_object(
      'id', channel.id,
      'tracking_number', changed.tracking_number,
      'status', private.shown_status(changed.status),
      'payment_status', changed.payment_status,
      'updated_at', changed.updated_at
    ),
    'UPDATE',
    'order-' || channel.id,
    false
  )
  from (values (changed.id), (changed.live_handle)) as channel (id);
end
$$;

comment on function private.notify_order_followers(public.orders) is
  'Announces an order''s status on its two live channels, order-{id} and order-{live_handle}.';

create or replace function private.open_order(
  tracking_number text,
  access_key text,
  phone_digits text,
  out found_order public.orders,
  out is_open boolean,
  out refusal jsonb
)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := coalesce(upper(trim(left(open_order.tracking_number, 40))), '');
  digits text := nullif(trim(left(open_order.phone_digits, 40)), '');
  needs_whole_phone boolean;
begin
  select * into found_order from public.orders as o where o.tracking_number = wanted;
  is_open := exists (
    select from private.order_keys as k
    where k.order_id = found_order.id and k.access_key = left(open_order.access_key, 64)
  );
  if is_open then
    return;
  end if;

  if digits is not null then
    -- Guesses are serialised, so that each is counted before the next is compared. Unknown numbers take the same path: the response
    -- must not distinguish them.
    perform pg_advisory_xact_lock(hashtext('order_digits ' || wanted));
    if not private.is_within_limit('order_digits', wanted) then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    if not private.is_within_limit('digits') then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits from your network. Please try again in an hour',
        'too_many_guesses', '');
      return;
    end if;
    -- Many networks together could try all 10,000 endings. They cannot lock the customer out: the whole number still opens the
    -- order.
    needs_whole_phone := private.hits_so_far('order_digits_of_all', wanted, interval '30 days') >= 200;
    is_open := coalesce(
      private.normalised_phone(digits) = found_order.customer_phone
        or (right(found_order.customer_phone, 4) = digits and not needs_whole_phone),
      false
    );
    if is_open then
      return;
    end if;
    perform private.count_call('order_digits', wanted);
    perform private.count_call('digits');
    if found_order.id is not null then
      perform private.count_hit('order_digits_of_all', wanted, interval '30 days');
    end if;
    if needs_whole_phone then
      refusal := private.refusal_answer('PT429', 'Too many wrong digits for this order. Please enter the whole phone number',
        'too_many_guesses', '');
      return;
    end if;
  end if;

  if not private.count_order_lookup(wanted) then
    refusal := private.refusal_answer('PT429', 'Too many look-ups. Please try again in a few minutes', 'too_many_lookups', '');
  end if;
end
$$;

comment on function private.open_order(text, text, text) is
  'Finds an order for a caller who may prove that it is theirs, by its access key, the last four digits of its phone, or the whole number. is_open: the proof is right; that counts nothing. refusal: the answer instead, when the caller''s networks are over a limit.';

create or replace function private.order_facts(described public.orders, is_open boolean) returns jsonb
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  answer jsonb;
  doubt text;
  cancelled record;
  amount bigint;
begin
  answer := jsonb_build_object(
    'tracking_number', described.tracking_number,
    'live_handle', described.live_handle,
    'status', private.shown_status(described.status),
    'payment_status', described.payment_status,
    'updated_at', described.updated_at
  );
  -- That staff check a payment is public, as whether the order is paid; the amount is not.
  if described.payment_status = 'unpaid' then
    select case
      when bool_or(p.status = 'review') then 'review'
      -- The money of an unpaid order was being refunded already when it was matched to the order.
      when bool_or(p.status = 'completed' and p.refunded_at is null) then 'goes_back'
      when bool_or(p.status in ('initiating', 'processing')) then 'prompted'
      when (array_agg(p.status order by p.created_at desc))[1] = 'unresolved' then 'unresolved'
    end into doubt
    from public.payments as p
    where p.order_id = described.id;
    if doubt is not null then
      answer := answer || jsonb_build_object('payment_check', doubt);
    end if;
  elsif described.payment_status in ('paid', 'needs_decision') and exists (
    select from public.payments as p
    join public.refunds as r on r.payment_id = p.id
    where p.order_id = described.id and not p.needs_refund and r.status in ('approved', 'sending', 'sent', 'unknown')
  ) then
    answer := answer || '{"is_refunding": true}';
  end if;
  if described.status = 'cancelled' then
    select e.actor, e.details ->> 'reason' as reason into cancelled
    from public.order_events as e
    where e.order_id = described.id and e.kind = 'status_changed' and e.details ->> 'to' = 'cancelled'
    order by e.id desc limit 1;
    if cancelled.reason = 'not_paid_in_time' or cancelled.actor = 'staff' then
      answer := answer || jsonb_build_object(
        'cancelled_because', case when cancelled.reason = 'not_paid_in_time' then 'not_paid_in_time' else 'by_shop' end
      );
    end if;
  end if;
  if is_open or described.created_at >= now() - interval '30 days' then
    answer := answer || jsonb_build_object('total_amount', described.total_amount);
  end if;
  if not is_open then
    return answer;
  end if;

  if described.payment_status = 'unpaid' then
    if described.status = 'pending' then
      answer := answer || jsonb_build_object('reserved_until', described.reserved_until, 'expires_at', described.expires_at);
    end if;
  else
    select sum(p.amount) into amount
    from public.payments as p
    where p.order_id = described.id and p.status = 'completed' and not p.needs_refund;
    if amount > 0 then
      answer := answer || jsonb_build_object('paid_amount', amount);
    end if;
  end if;
  -- Less than the charge that came under the order's number: shown to the customer alone, because anyone can send it.
  select sum(t.amount) into amount
  from public.mpesa_transactions as t
  where t.order_id = described.id and t.payment_id is null and t.resolution is null;
  if amount > 0 then
    answer := answer || jsonb_build_object('part_paid', amount);
  end if;
  return answer;
end
$$;

comment on function private.order_facts(public.orders, boolean) is
  'The facts about an order''s state that domain/order-meaning.ts reads. With proof (is_open) also until when units are held and the order waits (reserved_until, expires_at), what was paid (paid_amount) and what came in part (part_paid).';

create or replace function public.begin_payment(
  order_id uuid,
  tracking_number text,
  phone text,
  notice_secret text,
  expected_amount integer default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(left(begin_payment.phone, 40));
  paid_order public.orders;
  current_attempt public.payments;
  charge integer;
  detail text;
  hint text;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  -- The order's row is the lock: attempts, settlements and expiry of one order happen one after another.
  select * into paid_order from public.orders as o
  where o.id = begin_payment.order_id and o.tracking_number = begin_payment.tracking_number
  for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  select * into current_attempt from public.payments as p
  where p.order_id = paid_order.id and (
    p.status in ('initiating', 'processing', 'review')
    -- Money that does not pay the order does not stop another attempt.
    or (p.status = 'completed' and not p.needs_refund and (
      paid_order.payment_status in ('paid', 'refunded')
      or (paid_order.payment_status = 'needs_decision' and p.amount = (paid_order.total_amount + 99) / 100 * 100)
    ))
  )
  order by (p.status = 'completed') desc, p.created_at desc
  limit 1;
  if found then
    return jsonb_build_object('is_new', false, 'payment', to_jsonb(current_attempt));
  end if;
  if paid_order.payment_status = 'needs_decision' then
    perform private.refuse(409, 'payment_to_decide',
      'Money for this order has reached us in another amount. We will call you about it: please do not pay again');
  end if;
  if paid_order.payment_status <> 'unpaid' then
    perform private.refuse(409, 'order_already_paid', 'This order is already paid');
  end if;
  if paid_order.status = 'cancelled' then
    perform private.refuse(409, 'order_cancelled', 'This order was cancelled. Please place a new one');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if charge < 100 then
    perform private.refuse(409, 'nothing_to_pay', 'There is nothing to pay for this order');
  end if;
  if begin_payment.expected_amount is not null and begin_payment.expected_amount not in (paid_order.total_amount, charge) then
    perform private.refuse(409, 'amount_changed', 'The amount does not match the order');
  end if;

  -- One order may be tried with many phones: without a limit, its owner could make many phones ring.
  if not private.count_call('payment_prompts') then
    return private.refusal_answer('PT429', 'Too many payments from your network. Please try again in a few minutes',
      'too_many_payments', '');
  end if;
  if not private.count_call('payment_prompts_of_order', paid_order.id::text) then
    return private.refusal_answer('PT429', 'Too many payment attempts for this order. Please wait a few minutes',
      'too_many_attempts', '');
  end if;
  if not private.count_call('payment_prompts_to_phone', payer) then
    return private.refusal_answer('PT429', 'Too many payment prompts to this phone. Please wait a few minutes',
      'too_many_prompts', '');
  end if;

  -- Refused requests stay counted from here on.
  begin
    insert into public.payments (order_id, phone, amount, next_query_at)
    values (paid_order.id, payer, charge, null)
    returning * into current_attempt;
    insert into private.payment_secrets (payment_id, notice_secret)
    values (current_attempt.id, begin_payment.notice_secret);
    -- Products are locked last, as everywhere.
    perform private.reserve_for_prompt(paid_order.id);
  exception when sqlstate 'PT000' then
    get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
    return private.refusal_answer(sqlstate, sqlerrm, detail, hint);
  end;
  return jsonb_build_object(
    'is_new', true,
    'payment', to_jsonb(current_attempt),
    'tracking_number', paid_order.tracking_number
  );
end
$$;

comment on function public.begin_payment(uuid, text, text, text, integer) is
  'Opens an attempt to collect an order''s money, or returns the one that is open or has succeeded. The id and the tracking number must belong to one order. Only when is_new may a prompt be sent.';

grant execute on function public.begin_payment(uuid, text, text, text, integer) to service_role;

create or replace function public.settle_payment(
  payment_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  amount integer default null,
  receipt text default null,
  merchant_request_id text default null,
  checkout_request_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  report private.payment_report := (
    settle_payment.source, settle_payment.verdict, settle_payment.result_code, settle_payment.result_description,
    settle_payment.amount, settle_payment.receipt, settle_payment.merchant_request_id, settle_payment.checkout_request_id
  );
  message_id bigint;
  attempt public.payments;
  receipt_owner public.payments;
  settlement private.settlement;
  outcome text;
  settled_id uuid;
begin
  if report.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the order first, then its payment, and both before the message is stored: its reference would take a weaker lock that two
  -- concurrent settlements cannot raise.
  perform from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = settle_payment.payment_id)
  for update;
  select * into attempt from public.payments as p where p.id = settle_payment.payment_id for update;
  if attempt.id is null then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, source_address, body, receipt)
  values (attempt.id, report.source, settle_payment.source_address, settle_payment.body, report.receipt)
  returning id into message_id;
  -- Serialises settlements with the same receipt or request id.
  perform pg_advisory_xact_lock(hashtext('settle ' || known.id))
  from unnest(array[report.receipt, report.checkout_request_id]) as known (id)
  where known.id is not null;

  -- What the message means.
  select * into receipt_owner from public.payments as p where p.receipt = report.receipt and p.id <> attempt.id;
  settlement := private.decide_settlement(
    attempt, report, receipt_owner,
    is_other_request => coalesce(report.checkout_request_id <> attempt.checkout_request_id, false) or exists (
      select from public.payments as p where p.checkout_request_id = report.checkout_request_id and p.id <> attempt.id
    ),
    is_receipt_of_test => exists (select from public.payment_tests as t where t.receipt = report.receipt),
    attempt_goes_back => private.is_being_refunded(attempt.id),
    owner_goes_back => private.is_being_refunded(receipt_owner.id)
  );

  -- What follows from it.
  if settlement.parts_receipt then
    perform private.take_receipt_away(attempt.id, failed => settlement.decision = 'failed');
    select * into strict attempt from public.payments as p where p.id = attempt.id;
  end if;
  outcome := case settlement.decision
    when 'second_money' then 'paid_twice'
    when 'adds_details' then 'already_completed'
    when 'completes' then private.complete_attempt(attempt, report)
    else settlement.decision
  end;
  settled_id := attempt.id;
  case settlement.decision
    when 'failed' then
      perform private.fail_attempt(attempt.id, 'failed', report, report.result_description);
    when 'wrong_amount' then
      perform private.fail_attempt(attempt.id, 'review', report,
        format('M-PESA reported %s cents, %s were charged', coalesce(report.amount::text, 'no'), attempt.amount));
      perform private.keep_unexplained_money(attempt, report);
    when 'superseded' then
      if report.verdict = 'succeeded' then
        perform private.keep_unexplained_money(attempt, report);
      end if;
    when 'confirmed_by_hand' then
      perform private.join_owner_of_receipt(attempt, report, receipt_owner);
    when 'second_money' then
      settled_id := private.add_second_money(attempt, report);
      update public.payment_messages as m set payment_id = settled_id where m.id = message_id;
    when 'adds_details' then
      perform private.add_details(attempt, report);
    else
      null;
  end case;
  update public.payment_messages as m
  set outcome = settled.outcome
  from (select outcome) as settled (outcome)
  where m.id = message_id and m.outcome is null;
  if settlement.decision = 'completes' then
    perform private.join_receipts(attempt.order_id);
    -- The attempt, or the one that its money was joined to.
    select m.payment_id into settled_id from public.payment_messages as m where m.id = message_id;
  end if;
  if report.verdict = 'succeeded' then
    perform private.tidy_outcomes(m.payment_id) from public.payment_messages as m where m.id = message_id;
  end if;
  select * into strict attempt from public.payments as p where p.id = settled_id;
  return jsonb_build_object('outcome', outcome, 'payment', to_jsonb(attempt));
end
$$;

comment on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a payment ends. Keeps the message, is repeatable, compares with the charged amount, lets a success supersede a failure and never the reverse, keeps every receipt as money of its own, and writes order, stock and delivery in the same transaction.';

grant execute on function public.settle_payment(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

create or replace function private.mark_order_paid(order_id uuid) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  is_short boolean;
begin
  select * into strict paid_order from public.orders as o where o.id = mark_order_paid.order_id;
  -- Too little or too much money needs review; such an order holds no units.
  if paid_order.payment_status = 'unpaid' and exists (
    select from public.payments as p
    where p.order_id = paid_order.id and p.status = 'completed' and not p.needs_refund
      and p.amount <> (paid_order.total_amount + 99) / 100 * 100
  ) then
    if paid_order.reserved_until is not null then
      perform private.return_units(paid_order.id);
    end if;
    update public.orders as o
    set payment_status = 'needs_decision', payment_method = 'mpesa', reserved_until = null, updated_at = now()
    where o.id = paid_order.id;
    return 'paid_needs_decision';
  end if;
  if paid_order.reserved_until is null then
    -- Late money: the units were returned. Take them again if they are available, else the order needs review.
    perform from public.products as p
    join public.order_items as i on i.product_id = p.id and i.order_id = paid_order.id
    order by p.id
    for update of p;
    select coalesce(bool_or(p.id is null or p.stock_quantity < i.quantity), true) into is_short
    from public.order_items as i
    left join public.products as p on p.id = i.product_id
    where i.order_id = paid_order.id;
    if is_short then
      update public.orders as o
      set payment_status = 'needs_decision', payment_method = 'mpesa', reserved_until = null, updated_at = now()
      where o.id = paid_order.id;
      return 'paid_needs_decision';
    end if;
    update public.products as p
    set stock_quantity = p.stock_quantity - i.quantity
    from public.order_items as i
    where i.order_id = paid_order.id and p.id = i.product_id;
  end if;
  update public.orders as o
  set payment_status = 'paid',
      payment_method = 'mpesa',
      status = case when o.status in ('pending', 'cancelled') then 'processing' else o.status end,
      reserved_until = null,
      updated_at = now()
  where o.id = paid_order.id;
  perform private.make_delivery(paid_order.id);
  return 'paid';
end
$$;

create or replace function private.decide_settlement(
  attempt public.payments,
  report private.payment_report,
  receipt_owner public.payments,
  is_other_request boolean,
  is_receipt_of_test boolean,
  attempt_goes_back boolean,
  owner_goes_back boolean
) returns private.settlement
language plpgsql immutable
set search_path = ''
as $$
declare
  is_completed boolean := attempt.status = 'completed';
  names_other_amount boolean := report.amount <> attempt.amount or (report.amount is null and report.source = 'notice');
  -- A reference that anyone can type disproves nothing.
  is_by_reference boolean := report.source in ('confirmation', 'statement');
  parts_receipt boolean := coalesce(
    report.receipt <> attempt.receipt and attempt.presumption is not null and not is_by_reference and not attempt_goes_back, false
  );
  -- As the attempt will be without the receipt it was presumed to have.
  stays_completed boolean := is_completed and not (parts_receipt and attempt.presumption = 'attempt');
  own_receipt text := case when not parts_receipt then attempt.receipt end;
  decision text := case
    when is_other_request then 'other_request'
    when report.verdict = 'pending' then 'pending'
    -- Also where money that came for the order completed the attempt by presumption: it was not this prompt's.
    when report.verdict = 'failed' and (
      attempt.status in ('initiating', 'processing', 'unresolved')
      or (is_completed and attempt.presumption = 'attempt' and not attempt_goes_back)
    ) then 'failed'
    when report.verdict = 'failed' or (names_other_amount and is_completed) then 'superseded'
    when names_other_amount then 'wrong_amount'
    -- A query names no amount: it cannot clear an attempt whose callback named a wrong one.
    when attempt.status = 'review' and report.amount is null then 'needs_review'
    when receipt_owner.order_id <> attempt.order_id or (receipt_owner.method = 'prompt' and receipt_owner.presumption is null)
      then 'receipt_replayed'
    -- The money of a payment test pays no order.
    when is_receipt_of_test then 'receipt_replayed'
    -- It is in the books already; money that goes back stays where it is.
    when owner_goes_back and (receipt_owner.method = 'prompt' or attempt_goes_back) then 'already_completed'
    -- Both have their receipts already.
    when receipt_owner.id is not null and stays_completed and own_receipt is not null then 'already_completed'
    -- The receipt is in the books: as money of its own, or as what another attempt was presumed to have brought.
    when receipt_owner.id is not null then 'confirmed_by_hand'
    -- A second success under another receipt is money of its own.
    when stays_completed and report.receipt <> own_receipt then 'second_money'
    when stays_completed then 'adds_details'
    else 'completes'
  end;
begin
  return (
    decision,
    case
      when decision = 'failed' then is_completed
      else parts_receipt and decision in ('confirmed_by_hand', 'second_money', 'adds_details', 'completes')
    end
  )::private.settlement;
end
$$;

comment on function private.decide_settlement(public.payments, private.payment_report, public.payments, boolean, boolean, boolean, boolean) is
  'What a message means for a payment attempt, from facts alone; writes nothing. receipt_owner: the other payment that has the receipt. is_other_request: its request id belongs to another attempt. attempt_goes_back, owner_goes_back: a refund of that money is requested or done.';

create or replace function private.join_owner_of_receipt(attempt public.payments, report private.payment_report, receipt_owner public.payments)
returns void
language plpgsql
set search_path = ''
as $$
declare
  own_id uuid := receipt_owner.id;
begin
  if receipt_owner.method = 'prompt' then
    own_id := private.take_receipt_away(receipt_owner.id);
  end if;
  perform private.absorb(own_id, attempt.id);
  update public.payments as p
  set result_code = report.result_code,
      result_description = report.result_description,
      presumption = null,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      updated_at = now()
  where p.id = attempt.id;
  if receipt_owner.amount <> attempt.amount and not receipt_owner.needs_refund
    and exists (select from public.orders as o where o.id = attempt.order_id and o.payment_status = 'needs_decision')
  then
    -- Only the amount that staff typed needed review.
    perform private.mark_order_paid(attempt.order_id);
  end if;
  perform private.join_receipts(attempt.order_id);
end
$$;

comment on function private.join_owner_of_receipt(public.payments, private.payment_report, public.payments) is
  'The attempt and the payment that has its receipt become one: the attempt stays. The order must be locked.';

create or replace function private.complete_attempt(attempt public.payments, report private.payment_report) returns text
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  paid_order public.orders;
  charge integer;
  part integer;
  -- Money that is being refunded, or was refunded, pays nothing.
  is_free boolean := report.receipt is null or private.take_back_refunds(report.receipt);
  pays_order boolean;
  is_extra boolean;
  outcome text;
begin
  select * into strict paid_order from public.orders as o where o.id = attempt.order_id;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  pays_order := is_free and paid_order.payment_status = 'unpaid';
  if is_free and paid_order.payment_status = 'needs_decision' and not exists (
    select from public.payments as p
    where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund and p.amount = charge
  ) then
    if attempt.amount = charge then
      -- The whole charge settles an order that needed review; the part, or the surplus, is refunded.
      pays_order := true;
      update public.payments as p
      set needs_refund = true, updated_at = now()
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and not p.needs_refund;
      perform private.tidy_outcomes(p.id) from public.payments as p
      where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed';
    elsif report.source = 'till' then
      -- Parts that staff give to one order pay it once they add up to its charge.
      select attempt.amount + coalesce(sum(p.amount), 0) into part
      from public.payments as p
      where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
        and not private.is_being_refunded(p.id);
      pays_order := part = charge and not exists (
        select from public.payments as p
        where p.order_id = attempt.order_id and p.status = 'completed' and not p.needs_refund
          and private.is_being_refunded(p.id)
      );
    end if;
  end if;
  is_extra := not pays_order and coalesce(part, charge) >= charge;
  update public.payments as p
  set status = 'completed',
      result_code = report.result_code,
      result_description = report.result_description,
      receipt = coalesce(p.receipt, report.receipt),
      presumption = case when report.source in ('confirmation', 'statement') and p.method = 'prompt' then 'attempt' end,
      merchant_request_id = coalesce(p.merchant_request_id, report.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, report.checkout_request_id),
      needs_refund = is_extra,
      next_query_at = null,
      completed_at = now(),
      updated_at = now()
  where p.id = attempt.id;
  outcome := case
    when pays_order then private.mark_order_paid(paid_order.id)
    when not is_free then 'goes_back'
    when is_extra then 'paid_twice'
    else 'paid_needs_decision'
  end;
  if outcome = 'paid_twice' and attempt.method = 'till' then
    -- Only money with a receipt can be sent back, and this may well be the receipt of what the order was paid with.
    update public.payments as p
    set needs_refund = true, updated_at = now()
    where p.order_id = attempt.order_id and p.id <> attempt.id and p.status = 'completed' and p.receipt is null
      and not p.needs_refund and p.amount = attempt.amount and not private.is_being_refunded(p.id);
    if found then
      update public.payments as p set needs_refund = false where p.id = attempt.id;
    end if;
  end if;
  return outcome;
end
$$;

comment on function private.complete_attempt(public.payments, private.payment_report) is
  'Money came with an open attempt: completes it and pays its order, or marks the money as too much, too little or on its way back. Returns the outcome: paid, paid_needs_decision, paid_twice or goes_back. The order must be locked.';

-- M-PESA prompts: what the payment function records about them and asks again.

create or replace function public.record_push(
  payment_id uuid,
  body text,
  merchant_request_id text default null,
  checkout_request_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  attempt public.payments;
begin
  -- Locked before its message is stored: the message's reference would take a weaker lock that two concurrent calls cannot raise.
  perform from public.payments as p where p.id = record_push.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (payment_id, source, body, outcome)
  values (
    record_push.payment_id, 'push', record_push.body,
    case
      when record_push.checkout_request_id is not null then 'accepted'
      when record_push.refusal_code is not null then 'refused'
      else 'unknown'
    end
  );
  -- A callback may arrive before the push is answered: what it settled stays settled.
  update public.payments as p
  set status = case
        when p.status <> 'initiating' then p.status
        when record_push.refusal_code is not null then 'failed'
        else 'processing'
      end,
      result_code = case when p.status = 'initiating' then coalesce(record_push.refusal_code, p.result_code) else p.result_code end,
      result_description = case
        when p.status = 'initiating' then coalesce(record_push.refusal_description, p.result_description)
        else p.result_description
      end,
      merchant_request_id = coalesce(p.merchant_request_id, record_push.merchant_request_id),
      checkout_request_id = coalesce(p.checkout_request_id, record_push.checkout_request_id),
      next_query_at = case
        when p.status <> 'initiating' then p.next_query_at
        when record_push.refusal_code is null then now() + interval '10 seconds'
      end,
      updated_at = now()
  where p.id = record_push.payment_id
  returning * into attempt;
  return to_jsonb(attempt);
end
$$;

comment on function public.record_push(uuid, text, text, text, text, text) is
  'Stores the response to the push. Without request ids and without a refusal the response was lost: the attempt stays open.';

grant execute on function public.record_push(uuid, text, text, text, text, text) to service_role;

create or replace function public.find_payment(reference text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  wanted text := left(find_payment.reference, 200);
  own_id uuid := case
    when wanted ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then wanted::uuid
  end;
  found_payment jsonb;
begin
  -- M-PESA's ids consist of the time and the phone, so they can be guessed.
  if not private.is_within_limit('unknown_payments') then
    return private.refusal_answer('PT429', 'Too many unknown payments. Please try again in a few minutes',
      'too_many_lookups', '');
  end if;
  -- The customer's device knows an attempt by M-PESA's id, or by ours when the answer with that id was lost.
  select to_jsonb(p) || case
    -- Money that is being refunded has not paid: staff contact the customer.
    when p.status = 'completed' and o.payment_status = 'unpaid' then '{"status": "review"}'
    else '{}'
  end::jsonb into found_payment
  from public.payments as p
  join public.orders as o on o.id = p.order_id
  where p.checkout_request_id = wanted or p.id = own_id
  limit 1;
  if found_payment is null then
    perform private.count_call('unknown_payments');
  end if;
  return found_payment;
end
$$;

comment on function public.find_payment(text) is
  'An attempt by M-PESA''s checkout request id or by its own id, for clients that poll its status; null when there is none. Unknown references count for the networks of the caller.';

grant execute on function public.find_payment(text) to service_role;

-- M-PESA allows few queries per minute. Prompts of one network, which anyone can cause, must not delay the payments of others.
create or replace function public.lease_payment_queries(at_most integer default 1, per_minute integer default 5) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  -- One process at a time; each attempt at growing intervals.
  perform pg_advisory_xact_lock(hashtext('lease_payment_queries'));
  -- An attempt whose push was never answered has no id to query; after 15 minutes no callback arrives any more. What M-PESA does not
  -- know after a day it will never know.
  update public.payments as p
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where p.status in ('initiating', 'processing')
    and p.created_at < now() - case when p.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- All processes share the rate that M-PESA allows one merchant: a batch at once, then none until so many are allowed again.
  if not exists (
    select from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_queries.at_most / greatest(lease_payment_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with waiting as materialized (
    select p.id, p.next_query_at, (
      select k.network from private.order_networks as k
      where k.order_id = p.order_id
      order by private.allowance_factor(k.network) desc
      limit 1
    ) as widest_network
    from public.payments as p
    where p.status = 'processing' and p.checkout_request_id is not null and p.next_query_at <= now()
  ), asked as materialized (
    select w.widest_network, (
      select sum(p.query_count)
      from private.order_networks as k
      join public.payments as p on p.order_id = k.order_id
      where k.network = w.widest_network and p.created_at > now() - interval '15 minutes'
    ) as queries
    from waiting as w
    where w.widest_network is not null
    group by w.widest_network
  ), due as (
    select p.id
    from waiting as w
    join public.payments as p on p.id = w.id
    left join asked as a on a.widest_network = w.widest_network
    where p.status = 'processing'
    -- The network with the fewest queries first, then the attempt that has waited longest.
    order by coalesce(a.queries, 0), w.next_query_at
    limit lease_payment_queries.at_most
    -- An attempt that is being settled needs no query.
    for update of p skip locked
  )
  update public.payments as p
  set query_count = p.query_count + 1,
      -- The exponent is kept small: a long wait would be no interval any more.
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(p.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where p.id = due.id
  returning to_jsonb(p);
end
$$;

comment on function public.lease_payment_queries(integer, integer) is
  'Attempts to query now, at most at_most at once and per_minute; those of the networks with the fewest queries in the last 15 minutes first. Each is leased: it is due again later, at growing intervals, until it is settled.';

grant execute on function public.lease_payment_queries(integer, integer) to service_role;

create or replace function public.confirm_till_payment(order_id uuid, receipt text, amount integer) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(confirm_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  confirmed_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := confirm_till_payment.amount;
  settled jsonb;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  -- The order's row is the lock of all its payments, as everywhere.
  select * into confirmed_order from public.orders as o where o.id = confirm_till_payment.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  select * into known from public.payments as p where p.receipt = code;
  if known.order_id = confirmed_order.id then
    update public.payments as p set confirmed_by = coalesce(p.confirmed_by, member) where p.id = known.id returning * into known;
    return jsonb_build_object('outcome', 'already_completed', 'payment', to_jsonb(known));
  end if;
  perform private.expect_free_receipt(code, known.id is null);
  -- M-PESA's amount counts.
  select * into told from public.mpesa_transactions as t where t.receipt = code;
  if told.amount >= 100 and told.amount % 100 = 0
    and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
  then
    came := told.amount;
  end if;

  insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
  -- Not an open attempt: a prompt may be on the phone at the same time, and its result is still expected.
  values (confirmed_order.id, '', came, 'unresolved', 'till', member)
  returning * into known;
  perform set_config('private.is_typed_by_staff', 'yes', true);
  settled := public.settle_payment(
    payment_id => known.id,
    source => 'till',
    body => jsonb_build_object(
      'receipt', code,
      'amount', confirm_till_payment.amount,
      'confirmed_by', member,
      'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    verdict => 'succeeded',
    amount => came,
    receipt => code
  );
  perform set_config('private.is_typed_by_staff', '', true);
  if settled ->> 'outcome' = 'receipt_replayed' then
    -- Roll everything back.
    perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
  end if;
  return settled;
end
$$;

comment on function public.confirm_till_payment(uuid, text, integer) is
  'Staff confirm money that a customer paid by hand: its M-PESA receipt and the amount that came, in cents. Repeatable by receipt. Settled like every payment: an amount that is not the order''s charge waits for a decision, a second payment is flagged for refund.';

grant execute on function public.confirm_till_payment(uuid, text, integer) to authenticated, service_role;

create or replace function public.correct_till_payment(payment_id uuid, seen_receipt text, seen_amount integer, receipt text, amount integer)
returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(regexp_replace(correct_till_payment.receipt, '\s', '', 'g'));
  member uuid := (select auth.uid());
  paid_order public.orders;
  known public.payments;
  told public.mpesa_transactions;
  came integer := correct_till_payment.amount;
  charge integer;
begin
  perform private.expect_staff();
  perform private.expect_till_receipt(code, came);
  select o.* into paid_order from public.orders as o
  where o.id = (select p.order_id from public.payments as p where p.id = correct_till_payment.payment_id)
  for update;
  perform pg_advisory_xact_lock(hashtext('settle ' || known_receipt))
  from (select distinct unnest(array[code, correct_till_payment.seen_receipt]) as known_receipt order by 1) as locked;
  select * into known from public.payments as p where p.id = correct_till_payment.payment_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if (known.receipt, known.amount) is distinct from (correct_till_payment.seen_receipt, correct_till_payment.seen_amount) then
    perform private.refuse(409, 'payment_changed', 'This payment was changed in the meantime. Nothing was saved');
  end if;
  if exists (select from public.mpesa_transactions as t where t.receipt = known.receipt) then
    perform private.refuse(409, 'payment_confirmed', 'M-PESA has confirmed this payment. It cannot be corrected any more');
  end if;
  charge := (paid_order.total_amount + 99) / 100 * 100;
  if known.method <> 'till' or known.confirmed_by is null or known.status <> 'completed' or known.needs_refund
    or private.is_being_refunded(known.id)
    or exists (
      select from public.payments as p where p.order_id = paid_order.id and p.id <> known.id and p.status = 'completed'
    )
    or not (
      paid_order.payment_status = 'needs_decision'
      -- An order that was handed over keeps its status.
      or (paid_order.payment_status = 'paid' and (paid_order.status in ('pending', 'processing') or came = known.amount))
    )
  then
    perform private.refuse(409, 'payment_final', 'This payment cannot be corrected any more. Please look at it in Reconciliation');
  end if;
  if code <> known.receipt then
    if exists (select from public.payments as p where p.receipt = code) then
      perform private.refuse(409, 'receipt_used', 'This receipt has paid another order already');
    end if;
    perform private.expect_free_receipt(code, true);
    -- M-PESA's amount counts.
    select * into told from public.mpesa_transactions as t where t.receipt = code;
    if told.amount >= 100 and told.amount % 100 = 0
      and (told.heard_by_confirmation_at is not null or told.heard_by_statement_at is not null)
    then
      came := told.amount;
    end if;
  end if;
  if (code, came) = (known.receipt, known.amount) then
    return jsonb_build_object('outcome', 'unchanged', 'payment', to_jsonb(known));
  end if;

  update public.payments as p set receipt = code, amount = came, confirmed_by = coalesce(member, p.confirmed_by), updated_at = now()
  where p.id = known.id;
  -- Messages about money follow its receipt; their bodies stay as they came.
  update public.payment_messages as m set receipt = code where m.payment_id = known.id and m.receipt = known.receipt;
  insert into public.payment_messages (payment_id, source, body, receipt, outcome)
  values (
    known.id, 'till',
    jsonb_build_object(
      'receipt', code, 'amount', correct_till_payment.amount, 'instead_of', jsonb_build_object('receipt', known.receipt, 'amount', known.amount),
      'confirmed_by', member, 'email', (select u.email from auth.users as u where u.id = member)
    )::text,
    code, 'corrected'
  );
  perform private.record_order_event(paid_order.id, 'payment_corrected', 'staff', jsonb_build_object(
    'payment_id', known.id, 'amount', came, 'receipt', code, 'amount_before', known.amount, 'receipt_before', known.receipt
  ));
  perform set_config('private.is_typed_by_staff', 'yes', true);
  if paid_order.payment_status = 'needs_decision' and came = charge and known.amount <> charge then
    perform private.mark_order_paid(paid_order.id);
  elsif paid_order.payment_status = 'paid' and came <> known.amount then
    -- As when M-PESA reports less than staff typed: an order that has not left the shop needs review.
    update public.orders as o
    set payment_status = 'needs_decision', status = 'pending', updated_at = now()
    where o.id = paid_order.id;
    perform private.return_units(paid_order.id);
    delete from public.deliveries as d where d.order_id = paid_order.id;
  end if;
  perform set_config('private.is_typed_by_staff', '', true);
  -- Not sent yet and no longer true; what is sent again later is queued again.
  delete from public.outbox_messages as m
  where m.order_id = paid_order.id and m.status = 'waiting' and m.attempts = 0 and not private.is_message_true(m.order_id, m.kind);
  perform private.join_receipts(paid_order.id);
  select o.* into paid_order from public.orders as o where o.id = paid_order.id;
  return jsonb_build_object('outcome', paid_order.payment_status);
end
$$;

comment on function public.correct_till_payment(uuid, text, integer, text, integer) is
  'For staff: corrects the receipt and the amount (in cents) of money that staff confirmed by hand, as long as M-PESA has not confirmed it and it is the only money of its order. Refuses when receipt or amount are not those that were seen. The order follows: paid when the amount is its charge, otherwise it needs a decision.';

grant execute on function public.correct_till_payment(uuid, text, integer, text, integer) to authenticated, service_role;

create or replace function private.order_of_reference(reference text) returns uuid
language sql stable
set search_path = ''
as $$
  -- JJ-20261121-1234, JJ2611211234 and, for numbers of a busy day, 26112112345: case, spaces and hyphens do not matter.
  with written as (
    select regexp_replace(regexp_replace(upper(order_of_reference.reference), '[^A-Z0-9]', '', 'g'), '^JJ', '') as digits
  ),
  readings as (
    select 'JJ-' || left(digits, 8) || '-' || substr(digits, 9) as number from written where digits ~ '^20\d{10,12}$'
    union
    select 'JJ-20' || left(digits, 6) || '-' || substr(digits, 7) from written where digits ~ '^\d{10,12}$'
  ),
  found as (
    select o.id from public.orders as o where o.tracking_number in (select r.number from readings as r)
  )
  -- Staff decide when two readings both name existing orders.
  select f.id from found as f where (select count(*) from found) = 1;
$$;

comment on function private.order_of_reference(text) is
  'The order that a payer''s reference names, in either spelling of its tracking number. Null for none, or for more than one.';

create or replace function private.is_being_refunded(payment_id uuid) returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  answer boolean := false;
begin
  if to_regclass('public.refunds') is not null then
    execute 'select exists (select from public.refunds as r
      where r.payment_id = $1 and r.status not in (''withdrawn'', ''failed''))' into answer using is_being_refunded.payment_id;
  end if;
  return answer;
end
$$;

comment on function private.is_being_refunded(uuid) is 'Whether a refund of this payment was requested: then its receipt stays where it is.';

create or replace function private.tidy_outcomes(payment_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  money public.payments;
  first_word bigint;
begin
  select * into strict money from public.payments as p where p.id = tidy_outcomes.payment_id;
  -- Messages move with their receipts: one of them completed the payment.
  select m.id into first_word
  from public.payment_messages as m
  where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back')
  order by m.outcome = 'paid_twice', m.id
  limit 1;
  if money.status <> 'completed' then
    update public.payment_messages as m set outcome = 'presumed'
    where m.payment_id = money.id and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back');
  elsif first_word is null then
    update public.payment_messages as m
    set outcome = case when money.needs_refund then 'paid_twice' else 'paid' end
    where m.id = (
      select min(said.id) from public.payment_messages as said
      where said.payment_id = money.id and said.receipt = money.receipt and said.outcome is not null
    );
  else
    update public.payment_messages as m set outcome = 'confirmed_by_hand'
    where m.payment_id = money.id and m.id <> first_word and m.outcome in ('paid', 'paid_needs_decision', 'paid_twice', 'goes_back');
  end if;
end
$$;

comment on function private.tidy_outcomes(uuid) is 'Leaves a completed payment exactly one message that completed it.';

create or replace function private.attempt_for(order_id uuid, receipt text, amount integer, transacted_at timestamptz) returns uuid
language sql stable
set search_path = ''
as $$
  select p.id
  from public.payments as p
  where p.order_id = attempt_for.order_id
    and p.method = 'prompt'
    and p.receipt is null
    and p.amount = attempt_for.amount
    and p.status in ('initiating', 'processing', 'unresolved', 'review', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at < attempt_for.transacted_at + interval '15 minutes'
    -- An attempt whose callback named a receipt waits for that receipt.
    and not exists (
      select from public.mpesa_transactions as t where t.attempt_id = p.id and t.receipt <> attempt_for.receipt
    )
    -- A refund by hand from before the receipt was known is of this money.
    and (p.status = 'completed' or not private.is_being_refunded(p.id))
  order by p.status = 'completed' desc, p.created_at desc, p.id
  limit 1;
$$;

comment on function private.attempt_for(uuid, text, integer, timestamptz) is
  'The attempt of an order that money under its reference completes: it has no receipt yet, and was for the same amount.';

create or replace function private.orders_of_lost_receipts(receipt text) returns setof uuid
language sql stable
set search_path = ''
as $$
  select distinct p.order_id
  from public.mpesa_transactions as t
  join public.payments as p on p.amount = t.amount and p.method = 'prompt' and p.receipt is null
    and p.status in ('initiating', 'processing', 'unresolved', 'completed')
    -- M-PESA's clock may differ by minutes.
    and p.created_at between t.transacted_at - interval '15 minutes' and t.transacted_at + interval '15 minutes'
  where t.receipt = orders_of_lost_receipts.receipt and t.payment_id is null;
$$;

comment on function private.orders_of_lost_receipts(text) is
  'The orders whose prompts lack a receipt and were for the same amount at the time of money that nobody knows: it may be theirs.';

create or replace function private.join_receipts(order_id uuid) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  own record;
  attempt public.payments;
begin
  -- A payment of its own with a receipt from M-PESA, and an attempt without a receipt, count as the same until disproved.
  for own in
    select p.id, p.receipt, p.amount, t.transacted_at
    from public.payments as p
    join public.mpesa_transactions as t on t.receipt = p.receipt
    where p.order_id = join_receipts.order_id and p.method = 'till' and p.status = 'completed'
      and (t.heard_by_confirmation_at is not null or t.heard_by_statement_at is not null)
      and not private.is_being_refunded(p.id)
    order by p.needs_refund, t.transacted_at, p.receipt
  loop
    select a.* into attempt from public.payments as a
    where a.id = private.attempt_for(join_receipts.order_id, own.receipt, own.amount, own.transacted_at);
    continue when attempt.id is null;
    perform private.absorb(own.id, attempt.id);
    update public.payments as p
    set presumption = case when attempt.status = 'completed' then 'receipt' else 'attempt' end
    where p.id = attempt.id;
  end loop;
end
$$;

comment on function private.join_receipts(uuid) is
  'Joins receipts that M-PESA told of to attempts of the same order that were paid or may be, one to one. The order must be locked.';

create or replace function public.receive_mpesa_transaction(
  source text,
  receipt text,
  amount integer,
  reference text default '',
  transacted_at timestamptz default null,
  payer_phone text default null,
  payer_name text default null,
  body text default '',
  message_id bigint default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  code text := upper(trim(receive_mpesa_transaction.receipt));
  kept_id bigint := receive_mpesa_transaction.message_id;
  moment timestamptz := coalesce(receive_mpesa_transaction.transacted_at, now());
  for_order uuid;
  told public.mpesa_transactions;
  known public.payments;
  settled jsonb;
  outcome text;
  is_part boolean;
begin
  if receive_mpesa_transaction.source not in ('confirmation', 'statement') then
    perform private.refuse(400, 'source_unknown', 'Money without a prompt is told of by a confirmation or the statement');
  end if;
  if coalesce(code, '') = '' or coalesce(receive_mpesa_transaction.amount, 0) <= 0 then
    if kept_id is null then
      insert into public.payment_messages (source, body) values (receive_mpesa_transaction.source, receive_mpesa_transaction.body)
      returning id into kept_id;
    end if;
    update public.payment_messages as m set outcome = 'unreadable' where m.id = kept_id;
    return jsonb_build_object('outcome', 'unreadable', 'receipt', code, 'payment', null);
  end if;

  -- The order is known only after reading, and must be locked first. What changes between reading and locking is read again.
  loop
    for_order := private.order_of_money(code, receive_mpesa_transaction.reference);
    begin
      -- Leaving this block releases the lock: no transaction waits for a second order while it holds the first.
      perform from public.orders as o where o.id = for_order for update;
      perform pg_advisory_xact_lock(hashtext('settle ' || code));
      if private.order_of_money(code, receive_mpesa_transaction.reference) is distinct from for_order then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;

  insert into public.mpesa_transactions as t (
    receipt, amount, reference, payer_phone, payer_name, transacted_at, heard_by_confirmation_at, heard_by_statement_at, payment_id
  ) values (
    code, receive_mpesa_transaction.amount, coalesce(trim(receive_mpesa_transaction.reference), ''),
    nullif(trim(receive_mpesa_transaction.payer_phone), ''), nullif(trim(receive_mpesa_transaction.payer_name), ''), moment,
    case when receive_mpesa_transaction.source = 'confirmation' then now() end,
    case when receive_mpesa_transaction.source = 'statement' then now() end,
    (select p.id from public.payments as p where p.receipt = code)
  )
  on conflict (receipt) do update set
    -- A statement outranks a confirmation, and a confirmation outranks a callback, which may be forged.
    amount = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.amount
      else t.amount
    end,
    reference = case
      when t.reference = '' or t.heard_by_confirmation_at is null and t.heard_by_statement_at is null then excluded.reference
      else t.reference
    end,
    payer_phone = coalesce(t.payer_phone, excluded.payer_phone),
    payer_name = coalesce(t.payer_name, excluded.payer_name),
    transacted_at = case
      when receive_mpesa_transaction.source = 'statement' or t.heard_by_statement_at is null
        and t.heard_by_confirmation_at is null then excluded.transacted_at
      else t.transacted_at
    end,
    heard_by_confirmation_at = coalesce(t.heard_by_confirmation_at, excluded.heard_by_confirmation_at),
    heard_by_statement_at = coalesce(t.heard_by_statement_at, excluded.heard_by_statement_at),
    updated_at = now()
  returning * into told;

  select * into known from public.payments as p where p.receipt = code;
  if known.id is not null then
    outcome := 'already_completed';
    if kept_id is null then
      insert into public.payment_messages (payment_id, source, body, receipt, outcome)
      values (known.id, receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m
      set payment_id = known.id, receipt = code, outcome = 'already_completed' where m.id = kept_id;
    end if;
    if known.method = 'till' and known.amount <> told.amount and told.amount >= 100 and told.amount % 100 = 0
      and not private.is_being_refunded(known.id)
      and (known.needs_refund or (select o.payment_status from public.orders as o where o.id = known.order_id) = 'needs_decision')
    then
      -- Staff typed another amount. Where nothing was decided with it yet, M-PESA''s amount counts.
      update public.payments as p set amount = told.amount, updated_at = now() where p.id = known.id;
      if not known.needs_refund and told.amount = (
        select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = known.order_id
      ) then
        perform private.mark_order_paid(known.order_id);
      end if;
    elsif known.method = 'till' and told.amount < known.amount and not known.needs_refund
      and not private.is_being_refunded(known.id)
    then
      -- Less came than staff typed: an order that has not left the shop needs review.
      update public.orders as o
      set payment_status = 'needs_decision', status = 'pending', updated_at = now()
      where o.id = known.order_id and o.payment_status = 'paid' and o.status in ('pending', 'processing');
      if found then
        perform private.return_units(known.order_id);
        delete from public.deliveries as d where d.order_id = known.order_id;
        if told.amount >= 100 and told.amount % 100 = 0 then
          update public.payments as p set amount = told.amount, updated_at = now() where p.id = known.id;
        end if;
      end if;
    end if;
    perform private.join_receipts(known.order_id);
    select * into strict known from public.payments as p where p.receipt = code;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', to_jsonb(known));
  end if;

  -- A payment test that only a query completed has no receipt yet.
  if upper(trim(told.reference)) = 'TEST' then
    with lacking as (
      select t.id from public.payment_tests as t
      where t.status = 'completed' and t.receipt is null and t.amount = told.amount
        and t.created_at between told.transacted_at - interval '15 minutes' and told.transacted_at + interval '15 minutes'
    )
    update public.payment_tests as t set receipt = code, updated_at = now()
    from lacking where t.id = lacking.id and (select count(*) from lacking) = 1;
  end if;

  -- Anyone can type the number of an order. Less than its charge never pays it: staff decide.
  is_part := told.amount < (select (o.total_amount + 99) / 100 * 100 from public.orders as o where o.id = for_order);
  update public.mpesa_transactions as t set order_id = case when is_part then for_order end
  where t.receipt = code and t.order_id is distinct from case when is_part then for_order end;
  if for_order is null or is_part or told.resolution is not null or told.amount < 100 or told.amount % 100 <> 0
    or exists (select from public.payment_tests as t where t.receipt = code)
  then
    outcome := 'unmatched';
    if kept_id is null then
      insert into public.payment_messages (source, body, receipt, outcome)
      values (receive_mpesa_transaction.source, receive_mpesa_transaction.body, code, outcome);
    else
      update public.payment_messages as m set receipt = code, outcome = 'unmatched' where m.id = kept_id;
    end if;
    return jsonb_build_object('outcome', outcome, 'receipt', code, 'payment', null);
  end if;

  select * into known from public.payments as p
  where p.id = private.attempt_for(for_order, code, told.amount, told.transacted_at);
  if known.id is null then
    insert into public.payments (order_id, phone, amount, status, method)
    values (for_order, '', told.amount, 'unresolved', 'till')
    returning * into known;
  end if;
  settled := public.settle_payment(
    payment_id => known.id,
    source => receive_mpesa_transaction.source,
    body => receive_mpesa_transaction.body,
    verdict => 'succeeded',
    result_code => '0',
    amount => told.amount,
    receipt => code
  );
  -- It was stored before; now it belongs to its payment.
  if kept_id is not null then
    update public.payment_messages as m
    set source_address = kept.source_address, received_at = kept.received_at
    from public.payment_messages as kept
    where kept.id = kept_id and m.id = (select max(said.id) from public.payment_messages as said
      where said.payment_id = (settled -> 'payment' ->> 'id')::uuid and said.receipt = code and said.source = 'confirmation');
    delete from public.payment_messages as m where m.id = kept_id;
  end if;
  return settled || jsonb_build_object('receipt', code);
end
$$;

comment on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) is
  'Money that M-PESA tells of by a confirmation or its statement: each receipt once. Joined to the payment with this receipt, else to the order its reference names (an attempt without a receipt and of the same amount is completed by it, otherwise it is a payment of its own, and less than the charge waits for staff), else kept unmatched for staff. Repeatable, in any order with everything else.';

grant execute on function public.receive_mpesa_transaction(text, text, integer, text, timestamptz, text, text, text, bigint) to service_role;

create or replace function public.receipts_unheard(receipts text[]) returns text[]
language sql stable security definer
set search_path = ''
as $$
  select coalesce(array_agg(given.receipt order by given.place), '{}')
  from unnest(receipts_unheard.receipts) with ordinality as given (receipt, place)
  where not exists (
    select from public.mpesa_transactions as t
    where t.receipt = upper(trim(given.receipt)) and t.heard_by_statement_at is not null
  );
$$;

comment on function public.receipts_unheard(text[]) is 'Those of the receipts that no statement has listed yet.';

grant execute on function public.receipts_unheard(text[]) to service_role;

create or replace function public.begin_payment_test(phone text, notice_secret text, requested_by uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  payer text := private.normalised_phone(begin_payment_test.phone);
  begun public.payment_tests;
begin
  if payer is null then
    perform private.refuse(400, 'phone_invalid', 'Please enter a valid phone number');
  end if;
  if not exists (
    select from public.admin_profiles as a where a.user_id = begin_payment_test.requested_by and a.is_active
  ) then
    perform private.refuse(403, 'staff_only', 'Only staff may do this');
  end if;
  -- Tests make phones ring as well, so they are limited.
  if private.count_hit('payment_tests', 'all', interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_tests', 'Too many tests. Please wait a few minutes');
  end if;
  if private.count_hit('payment_prompts', payer, interval '10 minutes') > 10 then
    perform private.refuse(429, 'too_many_prompts', 'Too many payment prompts to this phone. Please wait a few minutes');
  end if;
  insert into public.payment_tests (phone, requested_by, requested_by_email)
  values (
    payer, begin_payment_test.requested_by,
    (select u.email from auth.users as u where u.id = begin_payment_test.requested_by)
  )
  returning * into begun;
  insert into private.payment_test_secrets (test_id, notice_secret) values (begun.id, begin_payment_test.notice_secret);
  return to_jsonb(begun);
end
$$;

comment on function public.begin_payment_test(text, text, uuid) is
  'Opens a test by a member of staff. Only then may its prompt be sent.';

grant execute on function public.begin_payment_test(text, text, uuid) to service_role;

create or replace function public.settle_payment_test(
  test_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  amount integer default null,
  receipt text default null,
  merchant_request_id text default null,
  checkout_request_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  test public.payment_tests;
  message_id bigint;
  outcome text;
begin
  if settle_payment_test.verdict not in ('succeeded', 'failed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  -- Lock the receipt before the test, in the same order as its confirmation.
  if settle_payment_test.receipt is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || settle_payment_test.receipt));
  end if;
  select * into test from public.payment_tests as t where t.id = settle_payment_test.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  insert into public.payment_messages (test_id, source, source_address, body)
  values (test.id, settle_payment_test.source, settle_payment_test.source_address, settle_payment_test.body)
  returning id into message_id;
  outcome := case
    when settle_payment_test.checkout_request_id <> test.checkout_request_id then 'other_request'
    when settle_payment_test.verdict = 'pending' then 'pending'
    when settle_payment_test.verdict = 'failed' then
      case when test.status in ('completed', 'failed', 'review') then 'superseded' else 'failed' end
    when test.status = 'completed' and test.receipt is not null then 'already_completed'
    when settle_payment_test.amount <> test.amount
      or (settle_payment_test.amount is null and settle_payment_test.source = 'notice') then
      case when test.status = 'completed' then 'superseded' else 'wrong_amount' end
    when exists (select from public.payments as p where p.receipt = settle_payment_test.receipt)
      or exists (select from public.payment_tests as t where t.receipt = settle_payment_test.receipt and t.id <> test.id)
      then 'receipt_replayed'
    when test.status = 'review' and settle_payment_test.amount is null then 'needs_review'
    else 'completed'
  end;
  if outcome in ('completed', 'failed', 'wrong_amount') then
    update public.payment_tests as t
    set status = case outcome when 'wrong_amount' then 'review' else outcome end,
        result_code = settle_payment_test.result_code,
        result_description = settle_payment_test.result_description,
        receipt = case outcome when 'completed' then coalesce(t.receipt, settle_payment_test.receipt) else t.receipt end,
        merchant_request_id = coalesce(t.merchant_request_id, settle_payment_test.merchant_request_id),
        checkout_request_id = coalesce(t.checkout_request_id, settle_payment_test.checkout_request_id),
        completed_at = case outcome when 'completed' then coalesce(t.completed_at, now()) else t.completed_at end,
        next_query_at = null,
        updated_at = now()
    where t.id = test.id
    returning * into test;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'test', to_jsonb(test));
end
$$;

comment on function public.settle_payment_test(uuid, text, text, text, text, text, integer, text, text, text, text) is
  'The one way a test ends: by the rules of settle_payment, without an order.';

grant execute on function public.settle_payment_test(uuid, text, text, text, text, text, integer, text, text, text, text) to service_role;

create or replace function public.lease_payment_test_queries(at_most integer default 1, per_minute integer default 5) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(hashtext('lease_payment_test_queries'));
  update public.payment_tests as t
  set status = 'unresolved', next_query_at = null, updated_at = now()
  where t.status in ('initiating', 'processing')
    and t.created_at < now() - case when t.checkout_request_id is null then interval '15 minutes' else interval '1 day' end;
  -- Shares the rate with queries of payments, which come first.
  if not exists (
    select from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
  ) or private.count_hit(
    'payment_queries', 'all',
    interval '1 minute' * lease_payment_test_queries.at_most / greatest(lease_payment_test_queries.per_minute, 1)
  ) > 1 then
    return;
  end if;
  return query
  with due as (
    select t.id from public.payment_tests as t
    where t.status = 'processing' and t.checkout_request_id is not null and t.next_query_at <= now()
    order by t.next_query_at
    limit lease_payment_test_queries.at_most
    for update skip locked
  )
  update public.payment_tests as t
  set query_count = t.query_count + 1,
      next_query_at = now() + least(interval '10 seconds' * power(1.5, least(t.query_count, 20)), interval '10 minutes'),
      updated_at = now()
  from due
  where t.id = due.id
  returning to_jsonb(t);
end
$$;

comment on function public.lease_payment_test_queries(integer, integer) is
  'Tests to ask M-PESA about now, if there are any; with the same limits as lease_payment_queries, whose allowance they share.';

grant execute on function public.lease_payment_test_queries(integer, integer) to service_role;

create or replace function private.set_test_money_aside(receipt text) returns void
language plpgsql
set search_path = ''
as $$
begin
  update public.mpesa_transactions as t
  set resolution = 'not_an_order', resolved_at = now(), updated_at = now()
  where t.receipt = set_test_money_aside.receipt and t.payment_id is null and t.resolution is null
    and exists (select from public.payment_tests as test where test.receipt = set_test_money_aside.receipt);
end
$$;

comment on function private.set_test_money_aside(text) is 'Marks the money of a payment test as not an order''s, so that the reconciliation does not list it.';

create or replace function private.refund_limit() returns integer
language sql stable
set search_path = ''
as $$
  select least(s.refund_approval_above, (
    select min(r.raised_from) from private.refund_limit_raises as r where r.raised_at > now() - interval '1 day'
  ))
  from public.store_settings as s;
$$;

comment on function private.refund_limit() is 'In cents, the limit now: a raise counts after one day.';

-- A payment was refunded: its order follows by the rules of decide_paid_order.
create or replace function private.refund_order_of_payment(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  refunded_order public.orders;
  refund_id uuid := (select r.id from public.refunds as r where r.payment_id = new.id and r.status = 'completed');
begin
  select * into strict refunded_order from public.orders as o where o.id = new.order_id for update;
  if new.needs_refund or refunded_order.payment_status not in ('paid', 'needs_decision') then
    if new.needs_refund then
      perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    end if;
    return;
  end if;
  if exists (
    select from public.payments as p
    where p.order_id = new.order_id and p.status = 'completed' and not p.needs_refund and p.refunded_at is null
  ) then
    -- It was paid in parts: it is refunded with the last one.
    perform private.queue_order_messages(new.order_id, 'order_refunded', refund_id::text);
    return;
  end if;
  -- Only when M-PESA reversed what it had refused to, the order is still to be delivered: its units stay in the shop.
  if refunded_order.payment_status = 'paid' and refunded_order.status in ('pending', 'processing') then
    perform private.return_units(refunded_order.id);
  end if;
  update public.orders as o
  set payment_status = 'refunded',
      status = case
        when refunded_order.payment_status = 'needs_decision' or refunded_order.status in ('pending', 'processing') then 'cancelled'
        else o.status
      end,
      units_returned_at = case
        when refunded_order.payment_status = 'needs_decision' or refunded_order.status in ('pending', 'processing') then now()
        else o.units_returned_at
      end,
      updated_at = now()
  where o.id = refunded_order.id;
end
$$;

-- Two entries of one receipt became one payment: its refund belongs to the one that stays.
create or replace function private.move_refund_with_receipt(new public.payments) returns public.payments
language plpgsql
set search_path = ''
as $$
declare
  moved public.refunds;
begin
  update public.refunds as r
  set payment_id = new.id, transaction_receipt = null, updated_at = now()
  where r.receipt = new.receipt and r.payment_id is distinct from new.id and r.test_id is null
    -- An earlier refund by hand stays the payment's own.
    and (r.status in ('failed', 'withdrawn') or not exists (
      select from public.refunds as own
      where own.payment_id = new.id and own.id <> r.id and own.status not in ('failed', 'withdrawn')
    ));
  select * into moved from public.refunds as r where r.payment_id = new.id and r.status = 'completed';
  if found then
    new.refunded_at := coalesce(new.refunded_at, moved.completed_at);
    new.refund_receipt := coalesce(new.refund_receipt, moved.refund_receipt);
  end if;
  -- A refund that was noted before the receipt was known gets this receipt.
  update public.refunds as r
  set receipt = new.receipt, updated_at = now()
  where r.payment_id = new.id and r.receipt is null and not exists (
    select from public.refunds as known
    where known.receipt = new.receipt and known.id <> r.id and known.status not in ('failed', 'withdrawn')
  );
  return new;
end
$$;

create or replace function public.request_test_refund(test_id uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  test public.payment_tests;
begin
  select * into test from public.payment_tests as t where t.id = request_test_refund.test_id for update;
  if not found then
    perform private.refuse(404, 'payment_not_found', 'This payment does not exist');
  end if;
  if test.refunded_at is not null or exists (
    select from public.refunds as r where (r.test_id = test.id or r.receipt = test.receipt) and r.status not in ('failed', 'withdrawn')
  ) then
    perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
  end if;
  if test.status <> 'completed' then
    perform private.refuse(409, 'nothing_to_send_back', 'There is nothing to send back. Cancel a paid order first to send its money back');
  end if;
  if test.receipt is null then
    perform private.refuse(409, 'receipt_unknown',
      'M-PESA has not told the receipt of this payment yet. Without it the money can only be sent back by hand');
  end if;
  return private.open_refund(null, test.id, test.receipt, test.amount, 'Test with KSh 1', member);
end
$$;

comment on function public.request_test_refund(uuid) is 'A staff member requests the refund of a payment test.';

grant execute on function public.request_test_refund(uuid) to authenticated;

create or replace function public.withdraw_refund(refund_id uuid) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  withdrawn public.refunds := private.locked_refund(withdraw_refund.refund_id);
begin
  if withdrawn.status = 'withdrawn' then
    return to_jsonb(withdrawn);
  end if;
  if withdrawn.status not in ('requested', 'approved') then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  update public.refunds as r set status = 'withdrawn', updated_at = now() where r.id = withdrawn.id returning * into withdrawn;
  return to_jsonb(withdrawn);
end
$$;

comment on function public.withdraw_refund(uuid) is 'Any staff member withdraws a refund that was not sent to M-PESA yet.';

grant execute on function public.withdraw_refund(uuid) to authenticated;

-- The order of locks is the same everywhere, against deadlocks: the order, the receipt (its advisory lock, then its row of
-- mpesa_transactions), the payment, the refund; products by id, last.
create or replace function private.locked_refund(refund_id uuid) returns public.refunds
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  seen public.refunds;
  locked public.refunds;
begin
  -- What is refunded is known only after reading, and must be locked first. What changes in between is read again.
  loop
    select * into seen from public.refunds as r where r.id = locked_refund.refund_id;
    if not found then
      perform private.refuse(404, 'refund_not_found', 'This refund does not exist');
    end if;
    begin
      perform from public.orders as o
      where o.id = (select p.order_id from public.payments as p where p.id = seen.payment_id)
      for update;
      if seen.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || seen.receipt));
        perform from public.mpesa_transactions as t where t.receipt = seen.receipt for update;
      end if;
      perform from public.payments as p where p.id = seen.payment_id for update;
      select * into strict locked from public.refunds as r where r.id = seen.id for update;
      if (locked.payment_id, locked.receipt) is distinct from (seen.payment_id, seen.receipt) then
        raise exception using errcode = 'JJ001';
      end if;
      return locked;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
end
$$;

comment on function private.locked_refund(uuid) is
  'A refund with everything it is about locked before it: its order, its receipt, its payment.';

create or replace function private.checked_refund_receipt(typed text) returns text
language plpgsql
set search_path = ''
as $$
declare
  code text := upper(regexp_replace(checked_refund_receipt.typed, '\s', '', 'g'));
begin
  if code is null or code !~ '^[A-Z0-9]{10}$' then
    perform private.refuse(400, 'receipt_invalid', 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD');
  end if;
  -- Settlements take the same lock for their receipts.
  perform pg_advisory_xact_lock(hashtext('settle ' || code));
  if exists (select from public.payments as p where p.receipt = code)
    or exists (select from public.payment_tests as t where t.receipt = code)
  then
    perform private.refuse(409, 'receipt_of_payment', 'This is the receipt of money that came in. Enter the receipt of sending it back');
  end if;
  if exists (select from public.refunds as r where r.refund_receipt = code) then
    perform private.refuse(409, 'refund_receipt_used', 'This receipt belongs to another refund already');
  end if;
  return code;
end
$$;

create or replace function public.close_unknown_refund(refund_id uuid, refund_receipt text default null) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  closed public.refunds := private.locked_refund(close_unknown_refund.refund_id);
begin
  if closed.status <> 'unknown' then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if close_unknown_refund.refund_receipt is not null then
    return to_jsonb(private.complete_refund(closed.id, private.checked_refund_receipt(close_unknown_refund.refund_receipt)));
  end if;
  -- M-PESA may still be working on it.
  if closed.sent_at > now() - interval '30 minutes' then
    perform private.refuse(409, 'refund_too_fresh', 'M-PESA is still being asked. Please wait until half an hour has passed');
  end if;
  update public.refunds as r
  set status = 'failed', next_check_at = null, updated_at = now(),
      result_description = 'A member of staff found that nothing was sent'
  where r.id = closed.id
  returning * into closed;
  return to_jsonb(closed);
end
$$;

comment on function public.close_unknown_refund(uuid, text) is
  'What a member of staff found out about a refund of which M-PESA tells nothing: the receipt by which it was sent, or, half an hour after it was tried, that nothing was sent.';

grant execute on function public.close_unknown_refund(uuid, text) to authenticated;

create or replace function public.lease_refunds(at_most integer default 1) returns setof jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  leased public.refunds;
  too_much record;
  left_over integer := lease_refunds.at_most;
  secret text;
begin
  perform pg_advisory_xact_lock(hashtext('lease_refunds'));
  -- Requested with the amount that staff typed, and then M-PESA reported less: no more is refunded than came. First, since it locks
  -- more than the refund.
  for too_much in
    select r.id, told.amount
    from public.refunds as r
    join public.mpesa_transactions as told on told.receipt = r.receipt and told.amount < r.amount
    where r.status in ('requested', 'approved')
    order by r.id
  loop
    perform private.locked_refund(too_much.id);
    update public.refunds as r
    set status = 'withdrawn', updated_at = now(),
        result_description = format('M-PESA told of %s cents under this receipt, %s were to go back', too_much.amount, r.amount)
    where r.id = too_much.id and r.status in ('requested', 'approved') and too_much.amount < r.amount;
  end loop;

  for leased in
    select * from public.refunds as r
    -- Not carried out for certain: tried again at growing intervals.
    where r.status = 'approved'
      and (r.tries = 0 or r.updated_at < now() - least(interval '15 seconds' * power(2, least(r.tries, 10)), interval '10 minutes'))
    order by r.created_at limit left_over for update skip locked
  loop
    left_over := left_over - 1;
    insert into private.refund_secrets (refund_id, notice_secret)
    values (leased.id, replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''))
    on conflict (refund_id) do nothing;
    select s.notice_secret into strict secret from private.refund_secrets as s where s.refund_id = leased.id;
    update public.refunds as r
    set status = 'sending', sent_at = now(), tries = r.tries + 1, updated_at = now()
    where r.id = leased.id returning * into leased;
    return next jsonb_build_object('work', 'send', 'refund', to_jsonb(leased), 'secret', secret);
  end loop;

  for leased in
    select * from public.refunds as r
    where (r.status in ('sent', 'unknown') and r.next_check_at <= now())
      -- The process that sent it never reported M-PESA''s response: it may have been carried out.
      or (r.status = 'sending' and r.sent_at < now() - interval '2 minutes')
    order by coalesce(r.next_check_at, r.sent_at) limit left_over for update skip locked
  loop
    -- One update only: of a row that one transaction changes twice PostgreSQL checks the references, which waits for their locks.
    update public.refunds as r
    set status = case when r.status = 'sending' or r.sent_at < now() - interval '10 minutes' then 'unknown' else r.status end,
        result_description = case
          when r.status = 'sending' then 'The shop was interrupted while it asked M-PESA'
          else r.result_description
        end,
        check_count = r.check_count + 1,
        -- The exponent is kept small: a long wait would be no interval any more.
        next_check_at = now() + least(interval '1 minute' * power(1.6, least(r.check_count, 15)), interval '1 hour'),
        updated_at = now()
    where r.id = leased.id
    returning * into leased;
    return next jsonb_build_object(
      'work', 'ask', 'refund', to_jsonb(leased),
      'secret', (select s.notice_secret from private.refund_secrets as s where s.refund_id = leased.id)
    );
  end loop;
end
$$;

comment on function public.lease_refunds(integer) is
  'Refunds to send now, each only ever once (work = send), and refunds to ask M-PESA about, at growing intervals (work = ask); each with the secret of its addresses.';

grant execute on function public.lease_refunds(integer) to service_role;

create or replace function public.record_reversal_push(
  refund_id uuid,
  body text,
  conversation_id text default null,
  originator_conversation_id text default null,
  refusal_code text default null,
  refusal_description text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  pushed public.refunds := private.locked_refund(record_reversal_push.refund_id);
  outcome text := case
    when record_reversal_push.refusal_code = 'R000001' then 'already_reversed'
    -- Nothing was carried out, for a temporary reason.
    when record_reversal_push.refusal_code in (
      'mpesa_unreachable', 'http_403', 'http_429', '500.003.02', '500.003.03', '400.003.01', '401.002.01', '404.001.03'
    ) and pushed.tries < 20 then 'busy'
    when record_reversal_push.refusal_code is not null then 'refused'
    when record_reversal_push.conversation_id is not null or record_reversal_push.originator_conversation_id is not null then 'accepted'
    else 'unknown'
  end;
begin
  insert into public.payment_messages (refund_id, source, body, outcome)
  values (pushed.id, 'reversal', record_reversal_push.body, outcome);
  -- A result may arrive before the response to the request: what it settled stays settled.
  update public.refunds as r
  set status = case
        when r.status <> 'sending' then r.status
        when outcome = 'refused' then 'failed'
        when outcome = 'accepted' then 'sent'
        when outcome = 'busy' then 'approved'
        else 'unknown'
      end,
      result_code = case when r.status = 'sending' then record_reversal_push.refusal_code else r.result_code end,
      result_description = case when r.status = 'sending' then record_reversal_push.refusal_description else r.result_description end,
      conversation_id = coalesce(r.conversation_id, record_reversal_push.conversation_id),
      originator_conversation_id = coalesce(r.originator_conversation_id, record_reversal_push.originator_conversation_id),
      next_check_at = case
        when r.status <> 'sending' then r.next_check_at
        when outcome = 'accepted' then now() + interval '2 minutes'
        when outcome = 'unknown' then now() + interval '1 minute'
        when outcome = 'already_reversed' then now()
      end,
      updated_at = now()
  where r.id = pushed.id
  returning * into pushed;
  return to_jsonb(pushed);
end
$$;

comment on function public.record_reversal_push(uuid, text, text, text, text, text) is
  'Keeps what the request to reverse was answered. A refusal that passes leaves it agreed on, to be tried again. Without conversation ids and without a refusal the answer was lost: it is asked about, never sent again.';

grant execute on function public.record_reversal_push(uuid, text, text, text, text, text) to service_role;

-- A refund that is completed already learns its receipt only from a result about the same amount.
-- That a payment still stands is no proof that its reversal, once taken, was not carried out: only where the request itself was
-- lost it means that nothing was sent. And an answer that names money that came in tells nothing of its way back.
create or replace function public.settle_reversal(
  refund_id uuid,
  source text,
  body text,
  verdict text,
  result_code text default null,
  result_description text default null,
  refund_receipt text default null,
  amount integer default null,
  originator_conversation_id text default null,
  source_address text default null
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  settled public.refunds;
  message_id bigint;
  outcome text;
  code text := nullif(settle_reversal.refund_receipt, '');
begin
  if settle_reversal.verdict not in ('succeeded', 'failed', 'already_reversed', 'not_reversed', 'pending') then
    perform private.refuse(400, 'verdict_unknown', 'A settlement is succeeded, failed or pending');
  end if;
  settled := private.locked_refund(settle_reversal.refund_id);
  insert into public.payment_messages (refund_id, source, source_address, body)
  values (settled.id, settle_reversal.source, settle_reversal.source_address, settle_reversal.body)
  returning id into message_id;
  if code is not null then
    perform pg_advisory_xact_lock(hashtext('settle ' || code));
    if exists (select from public.refunds as r where r.refund_receipt = code and r.id <> settled.id) then
      outcome := 'receipt_replayed';
    elsif settle_reversal.verdict = 'succeeded' and (
      code = settled.receipt
      or exists (select from public.payments as p where p.receipt = code)
      or exists (select from public.payment_tests as t where t.receipt = code)
      or exists (select from public.mpesa_transactions as t where t.receipt = code)
    ) then
      outcome := 'receipt_of_payment';
    -- A result of a reversal names the amount; a status without one may be of something else.
    elsif settle_reversal.verdict = 'succeeded' and settle_reversal.source = 'status_result'
      and settle_reversal.amount is distinct from settled.amount then
      outcome := 'pending';
    end if;
  end if;

  if outcome is not null then
    null;
  elsif settle_reversal.originator_conversation_id <> settled.originator_conversation_id then
    outcome := 'other_request';
  elsif settle_reversal.verdict = 'pending' then
    outcome := 'pending';
  elsif settle_reversal.verdict = 'succeeded' then
    if settled.status = 'completed' then
      outcome := 'already_completed';
      -- A result with another amount does not have this refund''s receipt.
      if settled.refund_receipt is null and code is not null and settled.amount = settle_reversal.amount then
        settled := private.complete_refund(settled.id, code);
      end if;
    elsif settled.tries = 0 then
      -- Nothing was sent yet: this result cannot be about the refund.
      outcome := 'not_sent';
    elsif settle_reversal.amount <> settled.amount then
      outcome := 'wrong_amount';
      update public.refunds as r
      set status = case when r.status in ('sending', 'sent', 'unknown') then 'unknown' else r.status end,
          result_code = settle_reversal.result_code,
          result_description = format('M-PESA reported %s cents, %s were to go back', settle_reversal.amount, r.amount),
          next_check_at = null, updated_at = now()
      where r.id = settled.id
      returning * into settled;
    else
      -- Supersedes a failure as well: the money has gone back. A second refund of the same money, begun after that
      -- failure, has lost its reason.
      update public.refunds as r
      set status = 'withdrawn', updated_at = now()
      where r.id <> settled.id and r.receipt = settled.receipt and r.status in ('requested', 'approved');
      if exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status = 'completed'
          and (r.method = 'by_hand' or r.refund_receipt <> code)
      ) then
        outcome := 'sent_twice';
        if settled.sent_twice_at is null then
          update public.refunds as r
          set sent_twice_at = now(), refund_receipt = coalesce(r.refund_receipt, code),
              result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
              next_check_at = null, updated_at = now()
          where r.id = settled.id
          returning * into settled;
          if settled.payment_id is not null then
            perform private.record_order_event(
              (select p.order_id from public.payments as p where p.id = settled.payment_id), 'refund_sent_twice', 'mpesa',
              jsonb_build_object('refund_id', settled.id, 'amount', settled.amount, 'receipt', settled.refund_receipt)
            );
          end if;
        end if;
      elsif exists (
        select from public.refunds as r
        where r.id <> settled.id and r.receipt = settled.receipt and r.status not in ('failed', 'withdrawn')
      ) then
        outcome := 'sent_by_another';
      else
        outcome := 'completed';
        update public.refunds as r
        set result_code = settle_reversal.result_code, result_description = settle_reversal.result_description
        where r.id = settled.id;
        settled := private.complete_refund(settled.id, code);
      end if;
    end if;
  elsif settled.status not in ('sending', 'sent', 'unknown') then
    outcome := 'superseded';
  elsif settle_reversal.verdict = 'already_reversed' then
    outcome := 'already_reversed';
    update public.refunds as r
    set status = 'unknown', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = now(), updated_at = now()
    where r.id = settled.id
    returning * into settled;
  elsif settle_reversal.verdict = 'not_reversed' and (
    -- M-PESA may not have processed it yet; it may have carried out what it accepted, whatever status the payment has since; and after
    -- the report that it is reversed already, no other status counts.
    settled.sent_at > now() - interval '10 minutes' or settled.originator_conversation_id is not null
    or settled.result_code is not distinct from 'R000001'
  ) then
    outcome := 'pending';
  else
    outcome := 'failed';
    update public.refunds as r
    set status = 'failed', result_code = settle_reversal.result_code, result_description = settle_reversal.result_description,
        next_check_at = null, updated_at = now()
    where r.id = settled.id
    returning * into settled;
  end if;
  update public.payment_messages as m set outcome = outcome_of.word from (select outcome as word) as outcome_of where m.id = message_id;
  return jsonb_build_object('outcome', outcome, 'refund', to_jsonb(settled));
end
$$;

comment on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) is
  'The one way a refund by M-PESA ends. Keeps the message, is repeatable, lets a success supersede a failure and never the reverse, and writes refund, payment and order in the same transaction.';

grant execute on function public.settle_reversal(uuid, text, text, text, text, text, text, integer, text, text) to service_role;

create or replace function public.acknowledge_sent_twice(refund_id uuid, note text) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid := private.expect_member();
  seen public.refunds := private.locked_refund(acknowledge_sent_twice.refund_id);
begin
  if seen.sent_twice_at is null or seen.sent_twice_seen_at is not null then
    perform private.refuse(409, 'refund_changed', 'This refund has changed meanwhile. Please look at it again');
  end if;
  if char_length(trim(coalesce(acknowledge_sent_twice.note, ''))) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'Please say why, in 3 to 200 characters');
  end if;
  update public.refunds as r
  set sent_twice_seen_at = now(), sent_twice_seen_by = member,
      sent_twice_seen_by_email = (select u.email from auth.users as u where u.id = member),
      sent_twice_note = trim(acknowledge_sent_twice.note), updated_at = now()
  where r.id = seen.id
  returning * into seen;
  if seen.payment_id is not null then
    perform private.record_order_event(
      (select p.order_id from public.payments as p where p.id = seen.payment_id), 'refund_sent_twice_seen', 'staff',
      jsonb_build_object('refund_id', seen.id, 'amount', seen.amount, 'reason', seen.sent_twice_note)
    );
  end if;
  return to_jsonb(seen);
end
$$;

comment on function public.acknowledge_sent_twice(uuid, text) is
  'A member of staff has dealt with money that went back twice, and says how. It is shown with the refund, and waits for nobody any more.';

grant execute on function public.acknowledge_sent_twice(uuid, text) to authenticated;

create or replace function public.lease_daraja_token(account text, stale_token text default null) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  known private.daraja_tokens;
begin
  insert into private.daraja_tokens (account) values (lease_daraja_token.account) on conflict do nothing;
  -- The row is the lock: concurrent calls are answered one after the other.
  select * into strict known from private.daraja_tokens as t where t.account = lease_daraja_token.account for update;
  if known.token is distinct from lease_daraja_token.stale_token and known.fresh_until > now() then
    return jsonb_build_object(
      'token', known.token,
      'fresh_for_ms', floor(extract(epoch from known.fresh_until - now()) * 1000)
    );
  end if;
  if known.leased_until > now() then
    return '{}';
  end if;
  -- The process with the lease may die: after ten seconds another one gets it.
  update private.daraja_tokens as t
  set lease = gen_random_uuid(), leased_until = now() + interval '10 seconds'
  where t.account = known.account
  returning t.lease into known.lease;
  return jsonb_build_object('lease', known.lease);
end
$$;

comment on function public.lease_daraja_token(text, text) is
  'The token while it is fresh and not the stale one; otherwise a lease to ask for the next, or {} while another process asks.';

grant execute on function public.lease_daraja_token(text, text) to service_role;

create or replace function public.keep_daraja_token(account text, lease uuid, token text, fresh_for_ms bigint) returns boolean
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  update private.daraja_tokens as t
  set token = coalesce(keep_daraja_token.token, t.token),
      fresh_until = case
        when keep_daraja_token.token is null then t.fresh_until
        else now() + keep_daraja_token.fresh_for_ms * interval '1 millisecond'
      end,
      lease = null,
      leased_until = null
  -- After the lease has expired, the next token may have made this one invalid.
  where t.account = keep_daraja_token.account and t.lease = keep_daraja_token.lease;
  return found;
end
$$;

comment on function public.keep_daraja_token(text, uuid, text, bigint) is
  'Ends a lease: keeps the token it was for, or gives it up (token null) so that the next one may ask at once. Says whether it was still ours.';

grant execute on function public.keep_daraja_token(text, uuid, text, bigint) to service_role;

create or replace function private.pause_prompts(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
begin
  if new.status = 'completed' then
    perform private.end_prompt_pause();
    return;
  end if;
  if not private.is_configuration_fault(new.result_code, new.result_description) then
    -- It proved neither that M-PESA works nor that it does not: the next prompt is the probe.
    update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
    return;
  end if;
  -- An immediate refusal has reached no phone; a later one may be about the phone.
  if new.checkout_request_id is not null and not private.is_credential_fault(new.result_code, new.result_description) then
    insert into private.prompt_faults as known (phone, at) values (new.phone, now())
    on conflict (phone) do update set at = excluded.at;
    -- A second phone confirms it, now or as the probe after a pause.
    if not exists (
      select from private.prompt_faults as f where f.phone <> new.phone and f.at > now() - interval '10 minutes'
    ) and not exists (
      select from private.prompt_pause as paused
      where paused.caused_by <> new.phone and paused.until between now() - interval '1 hour' and now()
    ) then
      update private.prompt_pause as paused set probe_at = null where paused.probe_at is not null and paused.until <= now();
      return;
    end if;
  end if;
  insert into private.prompt_pause as paused (code, description, caused_by, until)
  values (new.result_code, new.result_description, new.phone, now() + interval '5 minutes')
  on conflict (id) do update
  set code = excluded.code,
      description = excluded.description,
      caused_by = excluded.caused_by,
      probe_at = null,
      times = case when paused.until > now() - interval '1 hour' then paused.times + 1 else 1 end,
      since = case when paused.until > now() - interval '1 hour' then paused.since else now() end,
      until = now() + case
        when paused.until > now() - interval '1 hour' then least(interval '5 minutes' * power(2, least(paused.times, 10)), interval '1 hour')
        else interval '5 minutes'
      end
  -- Prompts that were sent before the pause fail for the same reason: they do not extend it.
  where paused.until <= now();
end
$$;

create or replace function private.refuse_prompt_in_pause() returns void
language plpgsql
set search_path = ''
as $$
declare
  must_wait boolean;
begin
  select paused.until > now()
    or coalesce(paused.until > now() - interval '1 hour' and paused.probe_at > now() - interval '2 minutes', false)
  into must_wait
  from private.prompt_pause as paused for update;
  if not must_wait then
    -- This prompt is the probe; the others wait for its result.
    update private.prompt_pause as paused set probe_at = now() where true;
  elsif must_wait then
    perform private.refuse(409, 'prompts_paused',
      'M-PESA prompts do not work right now. Your order is kept: please try again in a few minutes');
  end if;
end
$$;

create or replace function public.keep_failed_notice(payment_id uuid, body text, source_address text default null) returns bigint
language sql volatile security definer
set search_path = ''
as $$
  insert into public.payment_messages (payment_id, source, body, source_address, outcome)
  values (keep_failed_notice.payment_id, 'notice', keep_failed_notice.body, keep_failed_notice.source_address, 'fault')
  returning id;
$$;

comment on function public.keep_failed_notice(uuid, text, text) is
  'Stores a callback that could not be settled, verbatim: M-PESA sends it once. It is processed again later.';

grant execute on function public.keep_failed_notice(uuid, text, text) to service_role;

create or replace function public.list_failed_notices(at_most integer default 50) returns table (id bigint, payment_id uuid, body text)
language sql stable security definer
set search_path = ''
as $$
  select m.id, m.payment_id, m.body from public.payment_messages as m
  where m.outcome = 'fault' and m.received_at < now() - interval '30 seconds'
  order by m.id
  limit list_failed_notices.at_most;
$$;

comment on function public.list_failed_notices(integer) is 'Callbacks of prompts that were stored and could not be settled yet.';

grant execute on function public.list_failed_notices(integer) to service_role;

create or replace function public.finish_failed_notice(message_id bigint) returns void
language sql volatile security definer
set search_path = ''
as $$
  update public.payment_messages as m set outcome = 'settled_later' where m.id = finish_failed_notice.message_id and m.outcome = 'fault';
$$;

comment on function public.finish_failed_notice(bigint) is 'The callback is settled now, with a message of its own.';

grant execute on function public.finish_failed_notice(bigint) to service_role;

create or replace function public.lease_statement_pull(every interval default '30 minutes') returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  covered_until timestamptz;
  reach timestamptz := now() - interval '48 hours';
  leased public.statement_pulls;
begin
  perform pg_advisory_xact_lock(hashtext('lease_statement_pull'));
  if not exists (select from private.mpesa_registrations as r where r.kind = 'statement') then
    return null;
  end if;
  -- The process with the lease has died.
  update public.statement_pulls as s
  set outcome = 'failed', problem = 'It was begun and never ended', finished_at = now()
  where s.outcome = 'running' and s.leased_until < now();
  if exists (
    select from public.statement_pulls as s
    where s.outcome = 'running'
      or (s.outcome = 'complete' and s.finished_at > now() - lease_statement_pull.every)
      -- A failed pull is repeated sooner, but not at once.
      or (s.outcome = 'failed' and s.finished_at > now() - least(lease_statement_pull.every, interval '5 minutes'))
  ) then
    return null;
  end if;
  select max(s.window_to) into covered_until from public.statement_pulls as s where s.outcome = 'complete';
  insert into public.statement_pulls (window_from, window_to, missed_since, leased_until)
  values (
    -- Overlapping, for late entries. A little less than 48 hours, since clocks differ.
    greatest(covered_until - interval '3 hours', reach + interval '5 minutes'),
    now(),
    case when covered_until < reach + interval '5 minutes' then covered_until end,
    now() + interval '10 minutes'
  )
  returning * into leased;
  return to_jsonb(leased);
end
$$;

comment on function public.lease_statement_pull(interval) is
  'The stretch of M-PESA''s statement to pull now, leased to one process: from a few hours before where the last complete pull ended, at most 48 hours. Null when none is due, or when no statement is registered.';

grant execute on function public.lease_statement_pull(interval) to service_role;

create or replace function public.extend_statement_pull(pull_id bigint) returns boolean
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
begin
  update public.statement_pulls as s
  set leased_until = now() + interval '10 minutes'
  where s.id = extend_statement_pull.pull_id and s.outcome = 'running';
  return found;
end
$$;

comment on function public.extend_statement_pull(bigint) is 'Extends the lease of a pull. False when another process has taken it over.';

grant execute on function public.extend_statement_pull(bigint) to service_role;

create or replace function public.finish_statement_pull(
  pull_id bigint,
  payments integer default null,
  news integer default null,
  unreadable integer default null,
  problem text default null
) returns void
language sql volatile security definer
set search_path = ''
as $$
  update public.statement_pulls as s
  set outcome = case when finish_statement_pull.problem is null then 'complete' else 'failed' end,
      payments = finish_statement_pull.payments,
      news = finish_statement_pull.news,
      unreadable = finish_statement_pull.unreadable,
      problem = finish_statement_pull.problem,
      finished_at = now()
  where s.id = finish_statement_pull.pull_id and s.outcome = 'running';
  -- Pulls are stored for half a year; those with gaps for good.
  delete from public.statement_pulls as s
  where s.started_at < now() - interval '190 days' and s.missed_since is null;
$$;

comment on function public.finish_statement_pull(bigint, integer, integer, integer, text) is
  'Ends a pull: complete when every payment of its window was received, failed with the problem otherwise; then its window is pulled again.';

grant execute on function public.finish_statement_pull(bigint, integer, integer, integer, text) to service_role;

create or replace function public.statement_status() returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
begin
  perform private.expect_staff();
  return jsonb_build_object(
    'checked_at', clock_timestamp(),
    'till_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'till'),
    'statement_registered_at', (select r.registered_at from private.mpesa_registrations as r where r.kind = 'statement'),
    'last_confirmation_at', (select max(t.heard_by_confirmation_at) from public.mpesa_transactions as t
      where t.transacted_at > now() - interval '30 days'),
    'last_complete_at', (select max(s.finished_at) from public.statement_pulls as s where s.outcome = 'complete'),
    'covered_until', (select max(s.window_to) from public.statement_pulls as s where s.outcome = 'complete'),
    'problem', (
      select s.problem from public.statement_pulls as s where s.outcome <> 'running' order by s.id desc limit 1
    ),
    'missed', coalesce((
      select jsonb_agg(jsonb_build_object('from', s.missed_since, 'to', s.window_from) order by s.id desc)
      from public.statement_pulls as s
      where s.outcome = 'complete' and s.missed_since is not null and s.started_at > now() - interval '14 days'
    ), '[]'),
    -- Stored callbacks and confirmations that could not be settled.
    'left', (
      select count(*) from public.payment_messages as m
      where (m.outcome = 'fault' or (m.source = 'confirmation' and m.outcome is null)) and m.received_at < now() - interval '5 minutes'
    ),
    'unmatched', (
      select count(*) from public.mpesa_transactions as t
      where t.payment_id is null and t.resolution is null
        and not exists (select from public.payment_tests as k where k.receipt = t.receipt)
    )
  );
end
$$;

comment on function public.statement_status() is
  'For staff: whether M-PESA tells us of money by confirmations and by its statement, until when the statement is read, what of the last 14 days no statement will ever tell, and how much of what it told could not be settled (left).';

grant execute on function public.statement_status() to authenticated, service_role;

create or replace function private.reconciliation_rows(since timestamptz, until timestamptz)
returns table (
  id text,
  happened_at timestamptz,
  kind text,
  is_open boolean,
  receipt text,
  our_amount integer,
  their_amount integer,
  payment_id uuid,
  payment_status text,
  method text,
  needs_refund boolean,
  refunded_at timestamptz,
  refund_status text,
  order_id uuid,
  order_number text,
  tracking_number text,
  customer_name text,
  charge integer,
  order_payment_status text,
  reference text,
  payer_name text,
  payer_phone text,
  heard_by_confirmation_at timestamptz,
  heard_by_statement_at timestamptz,
  resolution text
)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
declare
  coverage tstzmultirange := private.statement_coverage();
begin
  return query
  with theirs as (
    select t.receipt, t.amount, t.reference, t.payer_name, t.payer_phone, t.transacted_at, t.payment_id, t.attempt_id, t.order_id,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution
    from public.mpesa_transactions as t
    where t.transacted_at >= reconciliation_rows.since and t.transacted_at < reconciliation_rows.until
      -- The money of a payment test pays no order.
      and not exists (select from public.payment_tests as k where k.receipt = t.receipt)
  ),
  ours as (
    select p.id
    from public.payments as p
    where p.status = 'completed'
      and p.completed_at >= reconciliation_rows.since and p.completed_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.payment_id = p.id)
    union all
    select p.id
    from public.payments as p
    where (p.status = 'review' or (p.status = 'failed' and exists (
        -- Looked at, and ended by that.
        select from public.reconciliation_events as e where e.payment_id = p.id and e.kind = 'accepted'
      )))
      and p.updated_at >= reconciliation_rows.since and p.updated_at < reconciliation_rows.until
      and not exists (select from public.mpesa_transactions as t where t.attempt_id = p.id)
  ),
  beside as (
    select t.receipt as told, t.amount as came, t.reference, t.payer_name, t.payer_phone, t.transacted_at,
      t.heard_by_confirmation_at, t.heard_by_statement_at, t.resolution, t.attempt_id, t.order_id as named, t.payment_id as money
    from theirs as t
    union all
    select null, null, null, null, null, null, null, null, (
      -- For payments that only the shop knows, the last event is the decision.
      select nullif(e.kind, 'reopened') from public.reconciliation_events as e
      where e.payment_id = o.id order by e.id desc limit 1
    ), null, null, o.id
    from ours as o
  ),
  known as (
    select b.*, p.id as p_id, p.receipt as p_receipt, p.amount as p_amount, p.status as p_status, p.method as p_method,
      p.needs_refund as p_needs_refund, p.refunded_at as p_refunded_at, p.completed_at as p_completed_at,
      p.created_at as p_created_at, p.updated_at as p_updated_at,
      o.id as o_id, o.order_number as o_number, o.tracking_number as o_tracking, o.customer_name as o_customer,
      (o.total_amount + 99) / 100 * 100 as o_charge, o.payment_status as o_payment_status,
      (
        select r.status from public.refunds as r
        where r.payment_id = p.id or r.receipt = coalesce(b.told, p.receipt)
        order by r.status in ('failed', 'withdrawn'), r.created_at desc
        limit 1
      ) as r_status
    from beside as b
    -- The attempt whose callback named a wrong amount is listed beside it.
    left join public.payments as p on p.id = coalesce(b.money, b.attempt_id)
    -- Less than the charge is listed beside the order that its reference names.
    left join public.orders as o on o.id = coalesce(p.order_id, b.named)
  ),
  judged as (
    select k.*,
      case
        when k.told is not null and k.money is null then case when k.attempt_id is null and k.named is null then 'missing_here' else 'wrong_amount' end
        when k.p_status in ('review', 'failed') then 'wrong_amount'
        when k.p_needs_refund then 'double'
        when k.came <> k.p_amount or k.p_amount <> k.o_charge then 'wrong_amount'
        when k.told is not null then 'matched'
        when coverage @> tstzrange(k.p_created_at, k.p_completed_at + interval '10 minutes') then 'missing_there'
        else 'not_compared'
      end as verdict,
      coalesce(k.r_status, 'failed') not in ('failed', 'withdrawn') as is_refunding
    from known as k
  )
  select
    coalesce(j.told, j.p_id::text),
    coalesce(j.transacted_at, j.p_completed_at, j.p_updated_at),
    j.verdict,
    case
      when j.verdict in ('matched', 'not_compared') or j.is_refunding or j.resolution in ('accepted', 'not_an_order') then false
      when j.verdict = 'double' then j.p_refunded_at is null
      when j.verdict = 'wrong_amount' and j.money is not null and j.p_status = 'completed'
        then j.came <> j.p_amount or j.o_payment_status = 'needs_decision'
      else true
    end,
    coalesce(j.told, j.p_receipt),
    case when j.p_status in ('completed', 'review') then j.p_amount end,
    j.came,
    j.p_id,
    j.p_status,
    j.p_method,
    coalesce(j.p_needs_refund, false),
    j.p_refunded_at,
    j.r_status,
    j.o_id,
    j.o_number,
    j.o_tracking,
    j.o_customer,
    j.o_charge,
    j.o_payment_status,
    j.reference,
    j.payer_name,
    j.payer_phone,
    j.heard_by_confirmation_at,
    j.heard_by_statement_at,
    j.resolution
  from judged as j;
end
$$;

comment on function private.reconciliation_rows(timestamptz, timestamptz) is
  'Our payments and M-PESA''s of a stretch of time, joined by receipt. kind: matched, missing_here (M-PESA has it, no payment is it), missing_there (the statement covers it and lacks it), not_compared (no statement covers it yet), double, wrong_amount.';

create or replace function public.suggest_orders(receipt text) returns jsonb
language plpgsql stable security definer
set search_path = ''
as $$
declare
  told public.mpesa_transactions;
begin
  perform private.expect_staff();
  select * into told from public.mpesa_transactions as t where t.receipt = suggest_orders.receipt;
  return coalesce((
    select jsonb_agg(to_jsonb(o)) from (
      select o.id, o.order_number, o.tracking_number, o.customer_name, o.total_amount, o.payment_status, o.status, o.created_at,
        o.id in (select private.orders_of_lost_receipts(told.receipt)) as lacks_receipt
      from public.orders as o
      where o.created_at between told.transacted_at - interval '3 days' and told.transacted_at + interval '1 hour'
        and (
          (o.payment_status = 'unpaid' and (o.total_amount + 99) / 100 * 100 = told.amount)
          or o.id = private.order_of_reference(told.reference)
          or o.id = (select p.order_id from public.payments as p where p.id = told.attempt_id)
          -- Possibly paid by this money, whose receipt was lost.
          or o.id in (select private.orders_of_lost_receipts(told.receipt))
        )
      order by o.id in (select private.orders_of_lost_receipts(told.receipt)) desc, o.id is not distinct from private.order_of_reference(told.reference) desc, o.created_at desc
      limit 5
    ) as o
  ), '[]');
end
$$;

comment on function public.suggest_orders(text) is
  'For staff: the orders that money may be for: those whose prompts of this amount and time lack a receipt (lacks_receipt) first, then unpaid ones of the same amount, placed in the days before.';

grant execute on function public.suggest_orders(text) to authenticated, service_role;

create or replace function public.resolve_difference(
  decision text,
  receipt text default null,
  payment_id uuid default null,
  order_id uuid default null,
  note text default null,
  is_sure boolean default false
) returns jsonb
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  member uuid;
  member_email text;
  told public.mpesa_transactions;
  money public.payments;
  reason text := nullif(trim(resolve_difference.note), '');
  answer jsonb := '{}';
  happened text;
  of_order uuid;
begin
  perform private.expect_staff();
  member := private.expect_member();
  select u.email into member_email from auth.users as u where u.id = member;
  -- As the reason of a refund, which it may become.
  if char_length(reason) not between 3 and 200 then
    perform private.refuse(400, 'reason_invalid', 'A note has 3 to 200 characters');
  end if;
  happened := case resolve_difference.decision
    when 'give' then 'given' when 'not_an_order' then 'not_an_order' when 'refund' then 'refund'
    when 'accept' then 'accepted' when 'reopen' then 'reopened' end;
  if happened is null or num_nonnulls(resolve_difference.receipt, resolve_difference.payment_id) = 0 then
    perform private.refuse(400, 'decision_unknown', 'A difference is given to an order, sent back, noted, accepted or opened again');
  end if;

  -- Lock the order, then the receipt, then read. Whose the receipt is by then is checked again: no transaction waits for an order while
  -- it holds a receipt.
  loop
    of_order := coalesce(
      resolve_difference.order_id,
      (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
      (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
    );
    begin
      perform from public.orders as o where o.id = of_order for update;
      if not found and resolve_difference.decision = 'give' then
        perform private.refuse(404, 'order_not_found', 'This order does not exist');
      end if;
      if resolve_difference.receipt is not null then
        perform pg_advisory_xact_lock(hashtext('settle ' || resolve_difference.receipt));
        select * into told from public.mpesa_transactions as t where t.receipt = resolve_difference.receipt for update;
      end if;
      -- With the same reference as before: another one might name another order.
      if of_order is distinct from coalesce(
        resolve_difference.order_id,
        (select p.order_id from public.payments as p where p.id = resolve_difference.payment_id),
        (select p.order_id from public.payments as p where p.receipt = resolve_difference.receipt)
      ) then
        raise exception using errcode = 'JJ001';
      end if;
      exit;
    exception when sqlstate 'JJ001' then
      null;
    end;
  end loop;
  select * into money from public.payments as p where p.id = coalesce(
    resolve_difference.payment_id, told.payment_id,
    -- M-PESA may not have reported the receipt that staff typed.
    (select typed.id from public.payments as typed where typed.receipt = resolve_difference.receipt)
  );
  if told.receipt is null and money.id is null then
    perform private.refuse(404, 'difference_not_found', 'This is not in the books any more');
  end if;

  if happened = 'given' then
    if told.receipt is null or told.payment_id is not null or told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if exists (select from public.payment_tests as t where t.receipt = told.receipt) then
      perform private.refuse(409, 'receipt_of_test', 'This is the receipt of a test with KSh 1. It pays no order');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    insert into public.payments (order_id, phone, amount, status, method, confirmed_by)
    values (resolve_difference.order_id, '', told.amount, 'unresolved', 'till', member)
    returning * into money;
    answer := public.settle_payment(
      payment_id => money.id,
      source => 'till',
      body => jsonb_build_object('receipt', told.receipt, 'amount', told.amount, 'confirmed_by', member, 'email', member_email)::text,
      verdict => 'succeeded',
      amount => told.amount,
      receipt => told.receipt
    );
    money.id := (answer -> 'payment' ->> 'id')::uuid;
    if answer -> 'payment' ->> 'method' = 'prompt' and not (answer -> 'payment' ->> 'needs_refund')::boolean then
      answer := answer || '{"outcome": "joined"}';
    end if;
  elsif happened = 'refund' and money.id is not null then
    -- The rules of refunds decide what may be refunded, and who must approve.
    answer := public.request_refund(money.id, coalesce(reason, 'Paid twice'));
  elsif happened = 'refund' then
    if told.resolution is not null then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
    if exists (select from public.refunds as r where r.receipt = told.receipt and r.status not in ('failed', 'withdrawn')) then
      perform private.refuse(409, 'refund_exists', 'This money is being sent back already');
    end if;
    if told.amount < 100 or told.amount % 100 <> 0 then
      perform private.refuse(409, 'amount_not_payable', 'This amount is no whole shillings and cannot pay an order');
    end if;
    if not coalesce(resolve_difference.is_sure, false) and exists (select private.orders_of_lost_receipts(told.receipt)) then
      perform private.refuse(409, 'may_be_of_order', format(
        'This may be the money of order %s, whose prompt lacks a receipt. Give it to that order, or send it back if you are sure',
        (select o.order_number from public.orders as o
         where o.id in (select private.orders_of_lost_receipts(told.receipt)) order by o.created_at desc limit 1)
      ));
    end if;
    insert into public.refunds (
      transaction_receipt, receipt, amount, reason, method, status, needs_approval, requested_by, requested_by_email
    )
    select told.receipt, told.receipt, told.amount, coalesce(reason, 'Not for any order'), 'reversal',
      case when told.amount > private.refund_limit() then 'requested' else 'approved' end,
      told.amount > private.refund_limit(), member, member_email;
  elsif happened = 'reopened' then
    if exists (
      select from public.refunds as r
      where (r.receipt = told.receipt or r.payment_id = money.id) and r.status not in ('failed', 'withdrawn')
    ) or told.resolution = 'given' then
      perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
    end if;
  elsif happened = 'not_an_order' and told.payment_id is not null then
    perform private.refuse(409, 'difference_changed', 'This was changed meanwhile. Please look at it again');
  end if;

  if told.receipt is not null then
    update public.mpesa_transactions as t
    set resolution = nullif(happened, 'reopened'),
        resolved_by = case when happened <> 'reopened' then member end,
        resolved_at = case when happened <> 'reopened' then now() end,
        updated_at = now()
    where t.receipt = told.receipt;
  end if;
  -- A refund of a payment records its own event.
  if happened <> 'refund' or money.id is null then
    insert into public.reconciliation_events (receipt, payment_id, order_id, kind, note, actor_id, actor_email)
    values (
      coalesce(told.receipt, money.receipt), money.id, coalesce(resolve_difference.order_id, money.order_id),
      happened, reason, member, member_email
    );
  end if;
  return jsonb_build_object('decision', happened, 'outcome', answer ->> 'outcome', 'payment_id', money.id);
end
$$;

comment on function public.resolve_difference(text, text, uuid, uuid, text, boolean) is
  'What staff decide about a difference of the reconciliation, named by its receipt or its payment: give it to an order (settled like every payment), not_an_order, refund (queued, by the rules of refunds; money that may be an order''s only when is_sure), accept, reopen. Kept in reconciliation_events.';

grant execute on function public.resolve_difference(text, text, uuid, uuid, text, boolean) to authenticated, service_role;

create or replace function private.move_order_with_delivery(old public.deliveries, new public.deliveries) returns void
language plpgsql
set search_path = ''
as $$
declare
  wanted text := private.order_status_of_delivery(new.delivery_status);
  had_wanted text := private.order_status_of_delivery(old.delivery_status);
begin
  if wanted is not null then
    update public.orders as o
    set status = wanted, updated_at = now()
    where o.id = new.order_id and o.status <> 'cancelled' and private.shown_status(o.status) is distinct from wanted;
  elsif had_wanted is not null then
    update public.orders as o
    set status = 'processing', updated_at = now()
    where o.id = new.order_id and private.shown_status(o.status) = had_wanted;
  end if;
end
$$;

create or replace function private.follow_delivery_status() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  moment timestamptz := clock_timestamp();
  of_order text;
begin
  -- Lock the order before the delivery is written: the transaction that holds it may be about to change the delivery.
  select o.status into of_order from public.orders as o where o.id = new.order_id for no key update;
  if tg_op = 'UPDATE' then
    -- The database's clock, never the same time for two changes.
    new.updated_at := greatest(moment, old.updated_at + interval '1 microsecond');
    if current_setting('private.is_undoing', true) = 'yes' then
      return new;
    end if;
    new.pickup_time := old.pickup_time;
    new.delivery_time := old.delivery_time;
    if new.delivery_status = old.delivery_status then
      -- The order may have changed while this request waited for it.
      new.delivery_status := private.delivery_status_beside(of_order, old.delivery_status, new.delivery_person);
      if new.delivery_status = old.delivery_status then
        return new;
      end if;
    elsif private.delivery_status_beside(of_order, old.delivery_status, old.delivery_person) <> old.delivery_status
      and (of_order = 'cancelled' or private.order_status_of_delivery(new.delivery_status) is null)
    then
      -- Overtaken by that change. One that moves the order itself is the later word, unless the order is cancelled.
      new.delivery_status := private.delivery_status_beside(of_order,
        case when of_order = 'cancelled' then old.delivery_status else new.delivery_status end, new.delivery_person);
    end if;
  elsif new.delivery_status in ('pending', 'assigned') and of_order <> 'cancelled' then
    new.delivery_status := private.delivery_status_beside(of_order, new.delivery_status, new.delivery_person);
  end if;
  if new.delivery_status not in ('pending', 'failed') and of_order = 'cancelled' then
    perform private.refuse(409, 'delivery_of_cancelled_order',
      'This order was cancelled. To deliver it after all, change the order first');
  end if;
  -- A step back takes back the times it undoes.
  case new.delivery_status
    when 'picked_up' then
      new.pickup_time := moment;
      new.delivery_time := null;
    when 'delivered' then
      new.delivery_time := moment;
    when 'pending', 'assigned' then
      new.pickup_time := null;
      new.delivery_time := null;
    else
      new.delivery_time := null;
  end case;
  return new;
end
$$;

create or replace function public.assign_delivery(
  order_id uuid,
  delivery_person text,
  delivery_phone text,
  delivery_vehicle text,
  delivery_notes text default null,
  seen_updated_at timestamptz default null
) returns public.deliveries
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  person text := nullif(trim(assign_delivery.delivery_person), '');
  phone text := nullif(trim(assign_delivery.delivery_phone), '');
  vehicle text := nullif(trim(assign_delivery.delivery_vehicle), '');
  notes text := nullif(trim(assign_delivery.delivery_notes), '');
  delivery public.deliveries;
begin
  perform private.expect_staff();
  if person is null then
    perform private.refuse(400, 'delivery_person_missing', 'Delivery person name is required');
  end if;
  if phone is null then
    perform private.refuse(400, 'delivery_phone_missing', 'Phone number is required');
  end if;
  if vehicle is null then
    perform private.refuse(400, 'delivery_vehicle_missing', 'Vehicle information is required');
  end if;
  if char_length(person) > 120 or char_length(phone) > 40 or char_length(vehicle) > 120 or char_length(notes) > 500 then
    perform private.refuse(400, 'delivery_too_long', 'The name, phone, vehicle or notes of the delivery are too long');
  end if;

  loop
    -- Read without a lock: only requests that change a delivery lock it.
    select * into delivery from public.deliveries as d where d.order_id = assign_delivery.order_id;
    if found then
      -- The same again, because the first answer was lost or the button pressed twice, is no change.
      if (delivery.delivery_person, delivery.delivery_phone, delivery.delivery_vehicle, delivery.delivery_notes)
        is not distinct from (person, phone, vehicle, notes) then
        return delivery;
      end if;
      if delivery.delivery_status in ('pending', 'failed') and exists (
        select from public.orders as o where o.id = assign_delivery.order_id and o.status = 'cancelled'
      ) then
        perform private.refuse(409, 'delivery_of_cancelled_order',
          'This order was cancelled. To deliver it after all, change the order first');
      end if;
      if assign_delivery.seen_updated_at is null and delivery.delivery_person is not null then
        perform private.refuse(409, 'delivery_already_assigned',
          format('%s already has this delivery. Nothing was changed', delivery.delivery_person));
      end if;
      if assign_delivery.seen_updated_at <> delivery.updated_at then
        perform private.refuse(409, 'delivery_changed',
          'This delivery was changed meanwhile. Please look at it again and save once more if you still want to');
      end if;
      begin
        update public.deliveries as d
        set delivery_person = person,
            delivery_phone = phone,
            delivery_vehicle = vehicle,
            delivery_notes = notes,
            delivery_status = case when d.delivery_status = 'pending' then 'assigned' else d.delivery_status end
        where d.id = delivery.id and d.updated_at = delivery.updated_at
        returning * into delivery;
        if found then
          return delivery;
        end if;
        -- Another request was first. Leaving this block releases the delivery.
        raise exception using errcode = 'JJ001';
      exception when sqlstate 'JJ001' then
        continue;
      end;
    end if;
    if not exists (select from public.orders as o where o.id = assign_delivery.order_id) then
      perform private.refuse(404, 'order_not_found', 'This order does not exist');
    end if;
    begin
      insert into public.deliveries
        (order_id, delivery_status, delivery_person, delivery_phone, delivery_vehicle, delivery_notes)
      values (assign_delivery.order_id, 'assigned', person, phone, vehicle, notes)
      returning * into delivery;
      return delivery;
    exception when unique_violation then
      -- Another request made it. Leaving this block releases the order, which is never locked while waiting for its delivery.
      null;
    end;
  end loop;
end
$$;

comment on function public.assign_delivery(uuid, text, text, text, text, timestamptz) is
  'Assigns the delivery of an order. An existing assignment changes only if the caller names the updated_at that it saw.';

grant execute on function public.assign_delivery(uuid, text, text, text, text, timestamptz) to authenticated, service_role;

-- The delivery follows its order, and the order its delivery.
create or replace function private.delivery_status_beside(order_status text, delivery_status text, delivery_person text) returns text
language sql immutable
set search_path = ''
return case private.shown_status(order_status)
  when 'delivered' then 'delivered'
  -- Whether it was picked up is not known: it is in transit.
  when 'out_for_delivery' then case when delivery_status in ('picked_up', 'in_transit') then delivery_status else 'in_transit' end
  -- A rider who is on the way stays on the way.
  when 'cancelled' then case when delivery_status in ('pending', 'assigned') then 'failed' else delivery_status end
  else case
    when delivery_status not in ('picked_up', 'in_transit', 'delivered') then delivery_status
    when delivery_person is null then 'pending'
    else 'assigned'
  end
end;

comment on function private.delivery_status_beside(text, text, text) is
  'What a delivery''s status becomes when its order has this one: the same where the two agree already.';

create or replace function private.move_delivery_with_order(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
declare
  delivery public.deliveries;
  wanted text;
begin
  -- A request that holds the delivery waits for this order and reads it then: waiting for that request would be a deadlock.
  select * into delivery from public.deliveries as d where d.order_id = new.id for no key update skip locked;
  if found then
    wanted := private.delivery_status_beside(
      new.status,
      -- A reactivated order is delivered again.
      case when old.status = 'cancelled' and delivery.delivery_status = 'failed'
        then case when delivery.delivery_person is null then 'pending' else 'assigned' end
        else delivery.delivery_status
      end,
      delivery.delivery_person
    );
    update public.deliveries as d
    set delivery_status = wanted
    where d.id = delivery.id and d.delivery_status <> wanted;
  end if;
end
$$;

create or replace function private.keep_order_events() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'DELETE' and not exists (select from public.orders as o where o.id = old.order_id) then
    return old;
  end if;
  -- Only the phone of a payment may be removed.
  if tg_op = 'UPDATE' and old.kind like 'payment\_%' and new.details = old.details - 'phone'
    and to_jsonb(new) - 'details' = to_jsonb(old) - 'details'
  then
    return new;
  end if;
  raise exception using errcode = 'insufficient_privilege', message = 'The timeline of an order is only added to';
end
$$;

create or replace function private.record_order_event(order_id uuid, kind text, otherwise text, details jsonb default '{}') returns void
language sql
set search_path = ''
as $$
  insert into public.order_events (order_id, kind, actor, actor_id, actor_email, details)
  select
    record_order_event.order_id,
    record_order_event.kind,
    case when member.user_id is null then record_order_event.otherwise else 'staff' end,
    member.user_id,
    member.email,
    jsonb_strip_nulls(record_order_event.details || case
      when current_setting('private.is_undoing', true) = 'yes' then '{"reason": "undone"}'
      when current_setting('private.although_unpaid', true) = 'yes' and record_order_event.kind = 'status_changed'
        then '{"although_unpaid": true}'
      else '{}'
    end::jsonb)
  from (select) as once
  left join (
    select a.user_id, u.email
    from public.admin_profiles as a
    join auth.users as u on u.id = a.user_id
    where a.user_id = (select auth.uid())
  ) as member on true;
$$;

comment on function private.record_order_event(uuid, text, text, jsonb) is
  'Adds to an order''s timeline. The actor is the member of staff whose request this is, otherwise the one named.';

create or replace function private.record_order_events(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  if old.id is null then
    perform private.record_order_event(new.id, 'order_placed', 'customer', jsonb_build_object(
      'total_amount', new.total_amount,
      'holds_no_units', case when new.payment_status = 'unpaid' and new.reserved_until is null then true end
    ));
    return;
  end if;
  if old.payment_status <> new.payment_status then
    perform private.record_order_event(
      new.id, 'payment_status_changed', case when new.payment_status in ('paid', 'needs_decision') then 'mpesa' else 'shop' end,
      jsonb_build_object('from', old.payment_status, 'to', new.payment_status)
    );
  end if;
  if old.status <> new.status then
    perform private.record_order_event(
      new.id, 'status_changed', 'shop',
      jsonb_build_object(
        'from', old.status,
        'to', new.status,
        'reason', case
          when old.payment_status <> new.payment_status and new.payment_status = 'paid' then 'paid'
          -- Only expire_reservations empties expires_at.
          when new.status = 'cancelled' and new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null
            then 'not_paid_in_time'
          when pg_trigger_depth() > 1 then 'delivery'
        end
      )
    );
  end if;
  if (old.payment_status = new.payment_status and old.units_returned_at is null and new.units_returned_at is not null)
    or (new.payment_status = 'unpaid' and old.reserved_until is not null and new.reserved_until is null)
  then
    perform private.record_order_event(new.id, 'units_returned', 'shop');
  elsif old.payment_status = new.payment_status and (
    (old.units_returned_at is not null and new.units_returned_at is null)
    or (new.payment_status = 'unpaid' and old.reserved_until is null and new.reserved_until is not null)
  ) then
    perform private.record_order_event(new.id, 'units_taken', 'shop');
  end if;
end
$$;

create or replace function private.record_payment_events(old public.payments, new public.payments) returns void
language plpgsql
set search_path = ''
as $$
declare
  payment jsonb := jsonb_build_object(
    'payment_id', new.id, 'phone', nullif(new.phone, ''), 'amount', new.amount,
    'method', case when new.method <> 'prompt' then new.method end
  );
  answer jsonb := jsonb_build_object(
    'result_code', new.result_code, 'result_description', new.result_description, 'receipt', new.receipt
  );
begin
  if old.id is null then
    -- It is settled in the same transaction, and recorded then.
    if new.method = 'till' then
      return;
    end if;
    perform private.record_order_event(new.order_id, 'payment_prompted', 'customer', payment);
    if new.status in ('initiating', 'processing') then
      return;
    end if;
  elsif old.status = new.status then
    if new.status = 'completed' and old.receipt is null and new.receipt is not null then
      perform private.record_order_event(new.order_id, 'payment_receipt_known', 'mpesa', payment || answer);
    end if;
    return;
  end if;
  if new.status = 'completed' then
    perform private.record_order_event(new.order_id, 'payment_completed', 'mpesa',
      payment || answer || case when new.needs_refund then '{"needs_refund": true}' else '{}' end::jsonb);
  elsif new.status = 'failed' then
    perform private.record_order_event(new.order_id, 'payment_failed', 'mpesa', payment || answer);
  elsif new.status = 'review' then
    perform private.record_order_event(new.order_id, 'payment_in_review', 'mpesa', payment || answer);
  elsif new.status = 'unresolved' then
    perform private.record_order_event(new.order_id, 'payment_unresolved', 'shop', payment || answer);
  end if;
end
$$;

create or replace function private.record_delivery_events(old public.deliveries, new public.deliveries) returns void
language plpgsql
set search_path = ''
as $$
declare
  is_made boolean := old.id is null;
  status_before text := case when is_made then 'pending' else old.delivery_status end;
  courier jsonb := jsonb_build_object('person', new.delivery_person, 'phone', new.delivery_phone, 'vehicle', new.delivery_vehicle);
  is_newly_assigned boolean := new.delivery_person is not null and (is_made
    or (old.delivery_person, old.delivery_phone, old.delivery_vehicle)
      is distinct from (new.delivery_person, new.delivery_phone, new.delivery_vehicle));
begin
  if is_made then
    perform private.record_order_event(new.order_id, 'delivery_made', 'shop');
  end if;
  if is_newly_assigned then
    perform private.record_order_event(new.order_id, 'delivery_assigned', 'shop',
      courier || jsonb_build_object('instead_of', case when not is_made then nullif(old.delivery_person, new.delivery_person) end));
  end if;
  -- The event of the assignment already implies the status "assigned".
  if new.delivery_status <> status_before and not (is_newly_assigned and new.delivery_status = 'assigned') then
    perform private.record_order_event(new.order_id, 'delivery_status_changed', 'shop',
      jsonb_build_object('from', status_before, 'to', new.delivery_status));
  end if;
end
$$;

-- Records approvals, not every attempt to send.
create or replace function private.record_refund_events(old public.refunds, new public.refunds) returns void
language plpgsql
set search_path = ''
as $$
declare
  refunded_order uuid := (select p.order_id from public.payments as p where p.id = new.payment_id);
begin
  if refunded_order is null or (old.id is not null and (
      old.status = new.status or (new.status = 'approved' and old.status <> 'requested')
    ))
    -- The order's own event reports the refund; without a receipt there is nothing to add.
    or (old.id is null and new.method = 'by_hand' and new.refund_receipt is null)
    or new.status = 'sending'
  then
    return;
  end if;
  perform private.record_order_event(
    refunded_order,
    'refund_' || case when old.id is null and new.status <> 'completed' then 'requested' else new.status end,
    case when new.status in ('completed', 'failed') then 'mpesa' else 'shop' end,
    jsonb_build_object(
      'refund_id', new.id, 'amount', new.amount, 'method', new.method,
      'receipt', new.refund_receipt,
      'reason', case when old.id is null then new.reason end,
      'needs_approval', case when new.needs_approval and new.status = 'requested' then true end,
      'result_code', case when new.status in ('failed', 'unknown') then new.result_code end,
      'result_description', case when new.status in ('failed', 'unknown') then new.result_description end
    )
  );
end
$$;

create or replace function public.decide_paid_order(order_id uuid, decision text) returns void
language plpgsql security definer
set search_path = ''
as $$
declare
  decided public.orders;
begin
  perform private.expect_staff();
  select * into decided from public.orders as o where o.id = decide_paid_order.order_id for update;
  if not found then
    perform private.refuse(404, 'order_not_found', 'This order does not exist');
  end if;
  if decide_paid_order.decision = 'deliver' and decided.payment_status = 'needs_decision' then
    if private.mark_order_paid(decided.id) <> 'paid' then
      perform private.refuse(409, 'units_sold_meanwhile',
        'The units of this order are sold meanwhile. There is not enough in stock to take it up again');
    end if;
  elsif decide_paid_order.decision = 'refunded' and (
    decided.payment_status = 'needs_decision' or (decided.payment_status = 'paid' and decided.status = 'cancelled')
  ) then
    -- Refunds need a receipt, and above the limit a second staff member: this procedure must not bypass them.
    if exists (select from public.payments as p where p.order_id = decided.id and p.status = 'completed') then
      perform private.refuse(409, 'refund_by_receipt',
        'Send this money back by M-PESA, or enter the M-PESA receipt by which it was sent back');
    end if;
    update public.orders as o
    set payment_status = 'refunded',
        status = 'cancelled',
        -- An order that needed review holds no units.
        units_returned_at = case when decided.payment_status = 'needs_decision' then now() else o.units_returned_at end,
        updated_at = now()
    where o.id = decided.id;
  else
    perform private.refuse(409, 'nothing_to_decide', 'This order has changed. There is nothing to decide any more');
  end if;
end
$$;

comment on function public.decide_paid_order(uuid, text) is
  'What a member of staff decides about money: deliver an order whose units were sold before it was paid, once there are units again; or note that the money of such an order, or of a cancelled one, was sent back (refunded), where the shop has no payment of it. Payments are sent back by request_refund or note_refund_by_hand.';

grant execute on function public.decide_paid_order(uuid, text) to authenticated, service_role;

-- Unpaid orders are handed over only with consent, refunded ones never. A change can be undone for 15 seconds, in which its message
-- to the customer waits.
create or replace function private.check_handover(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- Customers see both as out for delivery.
  if private.shown_status(old.status) = private.shown_status(new.status) then
    return;
  end if;
  if new.payment_status = 'refunded' then
    perform private.refuse(409, 'order_refunded',
      'The money of this order was sent back. It can be neither shipped nor delivered');
  end if;
  if coalesce(current_setting('private.although_unpaid', true), '') <> 'yes'
    and coalesce(current_setting('private.is_undoing', true), '') <> 'yes'
  then
    perform private.refuse(409, 'order_unpaid',
      'This order is not paid. Confirm that you want to hand it over all the same');
  end if;
end
$$;

comment on function private.check_handover(public.orders, public.orders) is
  'Refuses to ship or deliver a refunded order, and an unpaid one unless set_order_status or set_delivery_status was called with although_unpaid.';

create or replace function private.remember_status_change(order_id uuid, state_before jsonb) returns jsonb
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  change_id uuid;
begin
  -- Rows that another request has locked are left for the next one.
  delete from private.status_changes as c where c.id in (
    select old.id from private.status_changes as old where old.undo_until < now() for update skip locked
  );
  insert into private.status_changes (order_id, changed_by, undo_until, state_before, state_after)
  values (
    remember_status_change.order_id, (select auth.uid()), now() + private.undo_time(),
    remember_status_change.state_before, private.order_state(remember_status_change.order_id)
  )
  returning id into change_id;
  return jsonb_build_object(
    'change_id', change_id,
    'undo_seconds', extract(epoch from private.undo_time())::integer,
    'notifies_customer', exists (
      select from public.outbox_messages as m
      join private.outbox_queue as q on q.message_id = m.id
      where m.order_id = remember_status_change.order_id and private.is_status_message(m.kind)
        and m.attempts = 0 and private.is_message_true(m.order_id, m.kind)
    )
  );
end
$$;

comment on function private.remember_status_change(uuid, jsonb) is
  'Keeps what undo_status_change needs, in the transaction of the change. Returns the answer of the procedure that made it.';

-- Lists of orders and deliveries for staff: search, filters and counts (docs/decisions/staff-screens.md).

create or replace function private.order_search_pattern(search text) returns text
language sql immutable
set search_path = ''
as $$
  -- Characters match literally. A line break, which would match across two columns, counts as a space.
  select '%' || regexp_replace(lower(regexp_replace(nullif(trim(search), ''), '[\n\r]', ' ', 'g')), '([\\%_])', '\\\1', 'g') || '%';
$$;

comment on function private.order_search_pattern(text) is 'For LIKE: contains what was typed, in lower case. Null when nothing was.';

-- Conditions read the row's own items and rider in a scalar subquery. With EXISTS PostgreSQL used a hashed subplan and read all items
-- of the shop for the few orders of a search.
create or replace function private.list_conditions(
  list text,
  search text,
  status text,
  payment text,
  from_day date,
  until_day date,
  rider text,
  due text,
  out by_index text,
  out by_row text,
  out candidates text,
  out is_broad boolean
)
language plpgsql stable
set search_path = ''
as $$
declare
  is_orders constant boolean := list = 'orders';
  own constant text := case when is_orders then 'o' else 'd' end;
  -- As in the indexes by words.
  folded constant text := $sql$translate(lower(%s), 'àáâãäåçèéêëìíîïĩñòóôõöùúûüũ', 'aaaaaaceeeeiiiiinooooouuuuu')$sql$;
  order_text constant text := format(folded, $sql$o.order_number || E'\n' || split_part(o.tracking_number, '-', 3) || E'\n' || o.customer_name || E'\n' || o.customer_email || E'\n' || o.customer_phone || E'\n' || replace(o.customer_phone, '+254', '0') || E'\n' || o.shipping_address || E'\n' || o.city$sql$);
  item_text constant text := format(folded, 'i.product_name');
  rider_text constant text := format(folded, $sql$coalesce(d.delivery_person, '') || E'\n' || regexp_replace(coalesce(d.delivery_phone, ''), '[^0-9]', '', 'g')$sql$);
  is_open constant text := $sql$o.status in ('pending', 'processing', 'shipped', 'out_for_delivery')$sql$;
  is_open_delivery constant text := $sql$d.delivery_status in ('pending', 'assigned', 'picked_up', 'in_transit')$sql$;
  is_refund_due constant text := $sql$((o.payment_status = 'paid' and o.status = 'cancelled') or exists (
    select from public.payments as p where p.order_id = o.id and p.needs_refund and p.refunded_at is null and p.status = 'completed'))$sql$;
  rider_name constant text := lower(trim(left(list_conditions.rider, 120)));
  asked record;
  indexed text[] := '{}';
  checked text[] := '{}';
  pattern text;
  in_order text[] := '{}';
  anywhere text[] := '{}';
begin
  asked := private.read_list_search(search);
  is_broad := true;

  if from_day is not null then
    indexed := indexed || format($sql$%s.created_at >= %L::date::timestamp at time zone 'Africa/Nairobi'$sql$, own, from_day);
  end if;
  if until_day is not null then
    indexed := indexed || format($sql$%s.created_at < (%L::date + 1)::timestamp at time zone 'Africa/Nairobi'$sql$, own, until_day);
  end if;

  if is_orders then
    indexed := indexed || case
      when status is null then null
      -- Staff choose "Shipped"; a delivery that leaves makes its order "Out For Delivery".
      when status = 'shipped' then is_open || $sql$ and o.status in ('shipped', 'out_for_delivery')$sql$
      when status in ('pending', 'processing', 'out_for_delivery') then is_open || format(' and o.status = %L', status)
      else format('o.status = %L', status)
    end;
    indexed := indexed || case payment
      when 'paid' then $sql$o.payment_status = 'paid' and o.status <> 'cancelled'$sql$
      -- A cancelled unpaid order owes nothing.
      when 'unpaid' then $sql$o.payment_status = 'unpaid' and o.status <> 'cancelled'$sql$
      when 'needs_review' then $sql$o.payment_status = 'needs_decision'$sql$
      when 'refunded' then $sql$o.payment_status = 'refunded'$sql$
      when 'refund_due' then null
      else case when payment is not null then 'false' end
    end;
    indexed := indexed || case due
      when 'prepare' then is_open || $sql$ and o.payment_status = 'paid' and o.status in ('pending', 'processing')$sql$
      when 'late' then is_open || $sql$ and o.payment_status = 'paid' and coalesce(
        (select d.created_at from public.deliveries as d where d.order_id = o.id), o.created_at
      ) < now() - private.delivery_promise()$sql$
      else case when due is not null then 'false' end
    end;
  else
    indexed := indexed || case when status is not null then format('d.delivery_status = %L', status) end;
    indexed := indexed || case due
      when 'late' then is_open_delivery || $sql$ and d.created_at < now() - private.delivery_promise()
        and (select o.status from public.orders as o where o.id = d.order_id) <> 'cancelled'$sql$
      else case when due is not null then 'false' end
    end;
  end if;

  -- What no index has in the order of the list, the rarest last: it is where candidates come from.
  if rider_name <> '' then
    if is_orders then
      checked := checked || format(
        'coalesce((select lower(d.delivery_person) = %L from public.deliveries as d where d.order_id = o.id), false)', rider_name
      );
      candidates := format('select d.order_id as id from public.deliveries as d where lower(d.delivery_person) = %L', rider_name);
    else
      indexed := indexed || format('lower(d.delivery_person) = %L', rider_name);
    end if;
  end if;
  if cardinality(asked.order_ids) > 0 then
    checked := checked || format('o.id = any (%L::uuid[])', asked.order_ids);
    candidates := format('select unnest(%L::uuid[]) as id', asked.order_ids);
    is_broad := false;
  elsif asked.words is not null then
    -- One text for each row, so that it is made once for however many words.
    checked := checked || format($sql$(%1$s || E'\n' || coalesce((
      select string_agg(%2$s, E'\n') from public.order_items as i where i.order_id = o.id), '')%3$s like all (%4$L::text[])%5$s)$sql$,
      order_text, item_text, case when not is_orders then format($sql$ || E'\n' || %s$sql$, rider_text) end, asked.words,
      case when asked.digits is not null then
        format(' or %s like %L', order_text, asked.digits)
        || case when is_orders then '' else format(' or %s like %L', rider_text, asked.digits) end
      end
    );
    -- Words that no drink and no rider has are in the order itself: its index looks all of them up at once, so that words which
    -- many orders have are no slower than rare ones. Parts of fewer than three letters are in no index by trigram.
    foreach pattern in array asked.words loop
      if pattern ~ '[[:alnum:]]{3}' then
        if private.is_in_drinks(pattern) or (not is_orders and private.is_in_riders(pattern)) then
          anywhere := anywhere || pattern;
        else
          in_order := in_order || pattern;
        end if;
      end if;
    end loop;
    candidates := case
      when cardinality(in_order) > 0 then format('select o.id from public.orders as o where %s',
        (select string_agg(format('%s like %L', order_text, p.pattern), ' and ') from unnest(in_order) as p (pattern))
        || case when asked.digits is not null then format(' or %s like %L', order_text, asked.digits) else '' end)
      when cardinality(anywhere) > 0 then (
        select string_agg(format('(select i.order_id as id from public.order_items as i where %s like %L', item_text, p.pattern)
          || format(' union select o.id from public.orders as o where %s like %L', order_text, p.pattern)
          || case when is_orders then '' else
            format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, p.pattern) end
          || ')', ' intersect ')
        from unnest(anywhere) as p (pattern))
      else 'select o.id from public.orders as o'
    end || case when asked.digits is not null and not is_orders then
      format(' union select d.order_id from public.deliveries as d where %s like %L', rider_text, asked.digits) else '' end;
  end if;
  if is_orders and payment = 'refund_due' then
    checked := checked || is_refund_due;
    candidates := $sql$
      select o.id from public.orders as o where o.payment_status = 'paid' and o.status = 'cancelled'
      union
      select p.order_id from public.payments as p where p.needs_refund and p.refunded_at is null and p.status = 'completed'$sql$;
    is_broad := false;
  end if;
  by_index := coalesce(nullif(array_to_string(indexed, ' and '), ''), 'true');
  by_row := nullif(array_to_string(checked, ' and '), '');
end
$$;

comment on function private.list_conditions(text, text, text, text, date, date, text, text) is
  'The filters of a staff list, orders (o) or deliveries (d with their order o), as conditions in SQL. by_index: on the list''s own table, served by an index in the order of the list; by_row: all others, or null; candidates: a query for the ids of the orders they can be true of; is_broad: whether the newest rows are worth a look first.';

create or replace function private.limit_inquiries() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if cardinality(private.caller_networks()) > 0 then
    -- One inquiry per request: an insert of thousands of rows would run thousands of checks.
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
  end if;
  return new;
end
$$;

create or replace function private.queue_messages_of_order(old public.orders, new public.orders) returns void
language plpgsql
set search_path = ''
as $$
declare
  -- What staff typed about a payment can be corrected for as long as a status can be undone.
  due_at timestamptz := now() + case
    when current_setting('private.is_typed_by_staff', true) = 'yes' then private.undo_time() else interval '0'
  end;
begin
  if old.payment_status <> new.payment_status then
    if new.payment_status = 'paid' then
      perform private.queue_order_messages(new.id, 'order_paid', due_at => due_at);
    elsif new.payment_status = 'needs_decision' then
      perform private.queue_order_messages(new.id, 'order_payment_held', due_at => due_at);
    elsif new.payment_status = 'refunded' then
      perform private.queue_order_messages(new.id, 'order_refunded');
    end if;
  end if;
  if old.status <> new.status then
    if new.status in ('shipped', 'out_for_delivery') then
      perform private.queue_order_messages(new.id, 'order_on_its_way', due_at => now() + private.undo_time());
    elsif new.status = 'delivered' then
      perform private.queue_order_messages(new.id, 'order_delivered', due_at => now() + private.undo_time());
    elsif new.status = 'cancelled' and new.payment_status <> 'refunded' then
      -- Only expire_reservations empties expires_at.
      if new.payment_status = 'unpaid' and old.expires_at is not null and new.expires_at is null then
        -- An order without a prompt may name a stranger''s address.
        if exists (select from public.payments as p where p.order_id = new.id) then
          perform private.queue_order_messages(new.id, 'order_expired', channels => array['mail']);
        end if;
      else
        -- A text costs money: orders that nobody paid for cost the seller none.
        perform private.queue_order_messages(new.id, 'order_cancelled',
          channels => case when new.payment_status = 'unpaid' then array['mail'] else array['mail', 'text'] end,
          due_at => now() + private.undo_time());
      end if;
    end if;
  end if;
end
$$;

create or replace function private.check_message_template() returns trigger
language plpgsql security definer
set search_path = ''
as $$
declare
  written text := coalesce(new.subject, '') || E'\n' || new.body;
  is_newsletter boolean := new.kind = 'newsletter_confirmation';
  placeholders text[] := array['shop', 'shop_phone', 'shop_email'] || case
    when is_newsletter then array['confirm_link', 'unsubscribe_link']
    else array[
      'name', 'order', 'tracking', 'items', 'delivery_fee', 'total', 'paid', 'receipt', 'due_back', 'refunded', 'refund_receipt',
      'link', 'receipt_link'
    ]
  end;
  unknown text;
  missing text;
begin
  if trim(new.body) = '' or (new.channel = 'mail' and trim(new.subject) = '') then
    perform private.refuse(400, 'template_empty', 'A message needs words');
  end if;
  if char_length(new.body) > 5000 or (new.channel = 'text' and char_length(new.body) > 480) or char_length(new.subject) > 150 then
    perform private.refuse(400, 'template_too_long', 'This message is too long');
  end if;
  if new.subject ~ '[\n\r]' then
    perform private.refuse(400, 'subject_has_lines', 'A subject is one line');
  end if;
  select named.word[1] into unknown
  from regexp_matches(written, '\{([^{}]*)\}', 'g') as named (word)
  where named.word[1] <> all (placeholders)
  limit 1;
  if found then
    perform private.refuse(400, 'placeholder_unknown', format('There is no placeholder {%s}', unknown));
  end if;
  if is_newsletter then
    select wanted.word into missing
    from unnest(array['confirm_link', 'unsubscribe_link']) as wanted (word)
    where position('{' || wanted.word || '}' in new.body) = 0
    limit 1;
    if found then
      perform private.refuse(400, 'placeholder_missing', format('This message needs {%s}', missing));
    end if;
  end if;
  -- Brackets that remain after all complete ones are removed.
  if regexp_replace(regexp_replace(written, '\{[a-z_]+\}', '', 'g'), '\[[^][]*\]', '', 'g') ~ '[][{}]' then
    perform private.refuse(400, 'brackets_unbalanced', 'A bracket is not closed, or stands within another');
  end if;
  if tg_op = 'UPDATE' then
    new.updated_at := private.time_of_edit(to_jsonb(old), to_jsonb(new));
  end if;
  return new;
end
$$;

create or replace function public.search_messages(
  search text default '',
  status text default null,
  channel text default null,
  before_created_at timestamptz default null,
  before_id uuid default null,
  page_size integer default 50
) returns setof public.outbox_messages
language plpgsql stable security definer rows 50
set search_path = ''
as $$
declare
  pattern text := private.order_search_pattern(search_messages.search);
  most integer := least(greatest(coalesce(search_messages.page_size, 50), 1), 1000);
  -- A search scans this many of the newest before it uses the trigram index: a broad search has found its page by then.
  nearby integer := 40 * most;
  in_list text := concat_ws(' and ', 'true',
    case when search_messages.status is not null then 'm.status = $2' end,
    case when search_messages.channel is not null then 'm.channel = $3' end,
    case when search_messages.before_id is not null then '(m.created_at, m.id) < ($4, $5)' end
  );
  matches constant text :=
    $sql$lower(m.customer_name || E'\n' || m.recipient || E'\n' || m.order_number || E'\n' || m.tracking_number) like $1$sql$;
  found_ids uuid[];
  is_whole_list boolean;
begin
  perform private.expect_staff();
  if pattern is null then
    return query execute
      format('select m.* from public.outbox_messages as m where %s order by m.created_at desc, m.id desc limit $6', in_list)
      using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
        search_messages.before_id, most;
    return;
  end if;

  execute format(
    'with near as materialized (
       select m.id, m.created_at, m.customer_name, m.recipient, m.order_number, m.tracking_number
       from public.outbox_messages as m where %s order by m.created_at desc, m.id desc limit $7
     )
     select
       (select array_agg(found.id) from (
         select m.id from near as m where %s order by m.created_at desc, m.id desc limit $6
       ) as found),
       (select count(*) < $7 from near)',
    in_list, matches
  ) into found_ids, is_whole_list
  using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
    search_messages.before_id, most, nearby;

  if coalesce(cardinality(found_ids), 0) < most and not is_whole_list then
    execute format(
      'with found as materialized (
         select m.id, m.created_at from public.outbox_messages as m where %s and %s
       )
       select array_agg(newest.id)
       from (select found.id from found order by found.created_at desc, found.id desc limit $6) as newest',
      -- Hides the status from the planner, which would prefer its index.
      matches, replace(in_list, 'm.status =', $sql$m.status || '' =$sql$)
    ) into found_ids
    using pattern, search_messages.status, search_messages.channel, search_messages.before_created_at,
      search_messages.before_id, most;
  end if;
  return query
    select m.* from public.outbox_messages as m where m.id = any (found_ids) order by m.created_at desc, m.id desc;
end
$$;

comment on function public.search_messages(text, text, text, timestamptz, uuid, integer) is
  'For staff: a page of the messages whose recipient, customer, order or tracking number contains a text, in any case and literally; newest first, after the message named by before_created_at and before_id.';

grant execute on function public.search_messages(text, text, text, timestamptz, uuid, integer) to authenticated, service_role;

create or replace function private.queue_link_with_prompt(new public.payments) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform private.queue_order_messages(
    new.order_id,
    'order_received',
    channels => case
      -- Only the prompted phone gets a text: another one may be a stranger''s.
      when new.phone = (select o.customer_phone from public.orders as o where o.id = new.order_id) then array['mail', 'text']
      else array['mail']
    end
  );
end
$$;

create or replace function private.add_to_outbox(
  ordered public.orders,
  kind text,
  occasion text,
  channel text,
  recipient text,
  due_at timestamptz
) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  -- All others follow a payment, or a change made by staff to an order that was paid.
  has_priority boolean := add_to_outbox.kind not in ('order_received', 'order_expired')
    and (add_to_outbox.kind <> 'order_cancelled' or ordered.payment_status <> 'unpaid');
  problem text;
  added uuid;
begin
  -- Further prompts for an order count towards no limit: its customer has been notified.
  select m.id into added from public.outbox_messages as m
  where m.order_id = ordered.id and m.kind = add_to_outbox.kind
    and m.occasion = add_to_outbox.occasion and m.channel = add_to_outbox.channel;
  if found then
    -- Set again before the message left: the last change can be undone for as long as the first.
    if add_to_outbox.due_at > now() then
      update public.outbox_messages as m set next_attempt_at = add_to_outbox.due_at
      where m.id = added and m.status = 'waiting' and m.attempts = 0;
      if found then
        update private.outbox_queue as q set due_at = add_to_outbox.due_at, lease = null where q.message_id = added;
      end if;
    end if;
    return;
  end if;
  if not has_priority then
    -- The network first: what a network over its limit causes does not use up the recipient's limit. Orders are ended by the shop
    -- and by staff, whose networks say nothing about the customer.
    problem := case
      when add_to_outbox.kind = 'order_received'
        and not private.count_call(case add_to_outbox.channel when 'text' then 'unpaid_order_texts' else 'unpaid_order_mails' end)
        then 'Not sent: too many unpaid orders from one network today'
      when private.count_hit('unpaid_orders_of_recipient', lower(add_to_outbox.recipient), interval '1 hour') > 5
        then 'Not sent: too many unpaid orders for this recipient in one hour'
    end;
  end if;
  insert into public.outbox_messages (
    order_id, kind, occasion, channel, recipient, order_number, tracking_number, customer_name,
    has_priority, status, next_attempt_at, problem
  ) values (
    ordered.id, add_to_outbox.kind, add_to_outbox.occasion, add_to_outbox.channel, add_to_outbox.recipient,
    ordered.order_number, ordered.tracking_number, ordered.customer_name,
    has_priority,
    case when problem is null then 'waiting' else 'over_budget' end,
    case when problem is null then add_to_outbox.due_at end,
    problem
  )
  on conflict do nothing
  returning id into added;
  if problem is null and added is not null then
    insert into private.outbox_queue (message_id, channel, due_at) values (added, add_to_outbox.channel, add_to_outbox.due_at);
  end if;
end
$$;

comment on function private.add_to_outbox(public.orders, text, text, text, text, timestamptz) is
  'Adds one message of an order to the outbox, once per order, kind, occasion and channel; it leaves at due_at. Messages about unpaid orders are kept back (over_budget) above the limits of the caller''s networks and above five per recipient and hour.';

-- Sending messages: the queue of the outbox and the daily budgets.

create or replace function private.message_facts(order_id uuid, kind text, occasion text) returns jsonb
language plpgsql stable
set search_path = ''
as $$
declare
  shop jsonb := (
    select jsonb_build_object('name', s.store_name, 'phone', s.support_phone, 'email', s.support_email)
    from public.store_settings as s
  );
begin
  if message_facts.kind = 'newsletter_confirmation' then
    return jsonb_build_object('shop', shop, 'subscription_id', message_facts.occasion);
  end if;
  return (select jsonb_build_object(
    'shop', shop,
    'order_number', o.order_number,
    'tracking_number', o.tracking_number,
    'access_key', (select k.access_key from private.order_keys as k where k.order_id = o.id limit 1),
    'customer_name', o.customer_name,
    'delivery_fee', o.delivery_fee,
    'total_amount', o.total_amount,
    'items', coalesce((
      select jsonb_agg(
        jsonb_build_object('name', i.product_name, 'quantity', i.quantity, 'unit_price', i.unit_price)
        order by i.created_at, i.id
      )
      from public.order_items as i where i.order_id = o.id
    ), '[]'::jsonb),
    'payment', (
      select jsonb_build_object(
        'amount', p.amount, 'receipt', p.receipt, 'paid_at', p.completed_at,
        -- Of a refund, if there is one.
        'refund_receipt', to_jsonb(p) ->> 'refund_receipt'
      )
      from public.payments as p
      where p.order_id = o.id and p.status = 'completed'
        and case
          when message_facts.occasion = '' then not p.needs_refund
          -- A payment that was entered twice becomes one; its refund stays.
          else exists (select from public.refunds as r where r.id::text = message_facts.occasion and r.payment_id = p.id)
        end
      order by p.completed_at desc
      limit 1
    )
  )
  from public.orders as o
  where o.id = message_facts.order_id);
end
$$;

comment on function private.message_facts(uuid, text, text) is
  'Values of the placeholders of a message. Of an order: payment is the one that paid it, or the one whose refund the occasion names. Of a newsletter mail: the shop and the subscription.';

create or replace function public.send_message_again(message_id uuid) returns public.outbox_messages
language plpgsql security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  again public.outbox_messages;
begin
  perform private.expect_staff();
  update public.outbox_messages as m
  set status = 'waiting', next_attempt_at = now(), give_up_at = now() + interval '1 day', sending_since = null,
      -- Requested by staff, not by a visitor.
      has_priority = true,
      resent_by = coalesce((select u.email from auth.users as u where u.id = (select auth.uid())), 'the shop itself'),
      updated_at = now()
  where m.id = send_message_again.message_id and m.status in ('failed', 'unsure', 'over_budget')
    -- A message whose recipient was removed cannot be sent.
    and m.recipient <> ''
  returning * into again;
  if not found then
    if not exists (select from public.outbox_messages as m where m.id = send_message_again.message_id) then
      perform private.refuse(404, 'message_not_found', 'This message does not exist any more');
    end if;
    perform private.refuse(409, 'message_not_to_send_again', 'This message waits already, or was sent meanwhile');
  end if;
  if private.daily_budget(again.channel) <= coalesce((
    select s.total from private.messages_sent as s where s.day = private.nairobi_day(now()) and s.channel = again.channel
  ), 0) then
    perform private.refuse(409, 'message_budget_used_up', format(
      'Today''s budget of %s is used up. Raise it under Settings, or send this tomorrow', again.channel || 's'
    ));
  end if;
  insert into private.outbox_queue (message_id, channel, due_at) values (again.id, again.channel, now());
  return again;
end
$$;

comment on function public.send_message_again(uuid) is
  'For staff: sends a message that failed, that may have left, or that was over budget. It has another day to get through and may use the whole budget of the day.';

grant execute on function public.send_message_again(uuid) to authenticated, service_role;

create or replace function private.is_message_true(order_id uuid, kind text) returns boolean
language sql stable
set search_path = ''
as $$
  select case is_message_true.kind
    when 'order_on_its_way' then private.shown_status(o.status) = 'out_for_delivery'
    when 'order_delivered' then o.status = 'delivered'
    -- The message about the refund says the same and more.
    when 'order_cancelled' then o.status = 'cancelled' and o.payment_status <> 'refunded'
    when 'order_expired' then o.status = 'cancelled' and o.payment_status = 'unpaid'
    when 'order_paid' then o.payment_status in ('paid', 'refunded')
    when 'order_payment_held' then o.payment_status = 'needs_decision'
    else true
  end
  from public.orders as o where o.id = is_message_true.order_id;
$$;

comment on function private.is_message_true(uuid, text) is
  'Whether what a message of this kind reports of the order still stands. Null without an order.';

create or replace function private.anonymise_orders(order_ids uuid[]) returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  update public.orders as o
  set customer_name = 'Anonymised', customer_email = '', customer_phone = '', shipping_address = '', delivery_notes = null,
      anonymised_at = now()
  where o.id = any (anonymise_orders.order_ids);
  -- Links in old messages stop working, and the fingerprint of the form is removed.
  update private.order_keys as k
  set request_hash = '', access_key = replace(gen_random_uuid()::text, '-', '')
  where k.order_id = any (anonymise_orders.order_ids);
  delete from private.order_networks as n where n.order_id = any (anonymise_orders.order_ids);
  update public.payments as p set phone = '' where p.order_id = any (anonymise_orders.order_ids) and p.phone <> '';
  update public.deliveries as d
  set delivery_notes = null
  where d.order_id = any (anonymise_orders.order_ids) and d.delivery_notes is not null;
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (anonymise_orders.order_ids) and e.kind like 'payment\_%' and e.details ? 'phone';
  perform private.anonymise_messages(array(
    select m.id from public.outbox_messages as m where m.order_id = any (anonymise_orders.order_ids) and m.recipient <> ''
  ));
end
$$;

comment on function private.anonymise_orders(uuid[]) is
  'Removes name, e-mail, phone, address and notes of the customer from orders and everything that belongs to them. M-PESA''s own messages stay for store_settings.payment_messages_months. The caller has locked the orders.';

create or replace function private.forget_payment_words() returns void
language plpgsql
set search_path = ''
as $$
declare
  kept_since timestamptz := now() - make_interval(months => (select s.payment_messages_months from public.store_settings as s));
begin
  -- Answers that a prompt is not decided yet prove nothing.
  delete from public.payment_messages as m
  where m.id in (
    select old.id from public.payment_messages as old
    where old.source = 'query' and old.outcome = 'pending' and old.received_at < now() - interval '90 days'
    order by old.received_at limit 5000
    for update skip locked
  );
  -- Keeps when it arrived, its payment and its effect. Messages that could not be settled yet stay complete.
  update public.payment_messages as m
  set body = '{}', source_address = null
  where m.id in (
    select old.id from public.payment_messages as old
    where old.received_at < kept_since and old.body <> '{}' and old.outcome is not null and old.outcome <> 'fault'
    order by old.received_at limit 5000
    for update skip locked
  );
  update public.mpesa_transactions as t
  set payer_name = null, payer_phone = null
  where t.receipt in (
    select old.receipt from public.mpesa_transactions as old
    where old.transacted_at < kept_since and (old.payer_name is not null or old.payer_phone is not null)
    order by old.transacted_at limit 5000
    for update skip locked
  );
end
$$;

create or replace function private.forget_order_details() returns void
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  kept_since timestamptz := now() - make_interval(months => (select s.order_details_months from public.store_settings as s));
  due uuid[] := array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.created_at < kept_since and private.money_under_way(o.id) is null
    order by o.created_at limit 1000
    for update skip locked
  ) || array(
    select o.id from public.orders as o
    where o.anonymised_at is null and o.erasure_requested_at is not null and private.reason_to_keep(o.id) is null
    limit 1000
    for update skip locked
  );
begin
  -- Checked again under the lock: a payment may have begun in the meantime.
  perform private.anonymise_orders(array(
    select id from unnest(due) as id where private.money_under_way(id) is null
  ));
  update public.payment_tests as t set phone = '' where t.created_at < kept_since and t.phone <> '';
end
$$;

create or replace function public.erase_person(identifier text) returns jsonb
language plpgsql volatile security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  person record;
  known_as text;
  order_ids uuid[];
  closed uuid[];
  erased jsonb;
  postponed jsonb;
  touched integer;
begin
  perform private.expect_staff();
  select * into person from private.read_person(erase_person.identifier);
  known_as := coalesce(person.email, person.phone);
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
      and private.reason_to_keep(o.id) is null
  );
  perform private.anonymise_orders(closed);
  erased := jsonb_build_object('orders', cardinality(closed));
  update public.orders as o
  set erasure_requested_at = coalesce(o.erasure_requested_at, now())
  where o.id = any (order_ids) and o.anonymised_at is null
    and (lower(o.customer_email) = person.email or o.customer_phone = person.phone);

  -- This phone may have paid the orders of others. What is left of the orders locked above is open, or another customer's.
  update public.payments as p
  set phone = ''
  where p.phone = person.phone and p.order_id = any (order_ids) and private.reason_to_keep(p.order_id) is null;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('payments_for_others', touched);
  update public.order_events as e
  set details = e.details - 'phone'
  where e.order_id = any (order_ids) and e.kind like 'payment\_%' and e.details ->> 'phone' = person.phone
    and private.reason_to_keep(e.order_id) is null;
  update public.payment_tests as t set phone = '' where t.phone = person.phone and t.status not in ('initiating', 'processing');

  delete from public.inquiries as i where lower(i.email) = person.email or private.read_phone(i.phone) = person.phone;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('inquiries', touched);
  -- Its mails go with it.
  delete from public.newsletter_subscriptions as n where lower(n.email) = person.email;
  get diagnostics touched = row_count;
  erased := erased || jsonb_build_object('newsletter', touched);

  postponed := coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'id', o.id, 'order_number', o.order_number, 'reason', private.reason_to_keep(o.id),
        'is_own', coalesce(lower(o.customer_email) = person.email, o.customer_phone = person.phone, false)
      )
      order by o.created_at desc
    )
    from public.orders as o
    where o.id = any (order_ids) and o.anonymised_at is null and private.reason_to_keep(o.id) is not null
  ), '[]'::jsonb);
  perform private.log_personal_data_request(
    'erasure', known_as, erased || jsonb_build_object('postponed', jsonb_array_length(postponed))
  );
  return jsonb_build_object('identifier', known_as, 'erased', erased, 'postponed', postponed);
end
$$;

comment on function public.erase_person(text) is
  'For staff: anonymises the orders of a phone or e-mail address, removes the phone from payments of other orders, deletes inquiries and the newsletter subscription. Open orders are listed with the reason; own ones (is_own) are anonymised once they are closed, for the others the request has to be repeated. Logged. M-PESA''s messages stay for store_settings.payment_messages_months.';

grant execute on function public.erase_person(text) to authenticated, service_role;

create or replace function private.counted_page(path text) returns text
language sql stable
set search_path = ''
as $$
  -- Only existing pages are counted one by one, so that requests of strangers cannot fill the table.
  select case
    when page in ('/', '/shop', '/contact', '/delivery', '/newsletter', '/track-order') then page
    -- Tracking numbers are not counted.
    when page like '/track-order/%' then '/track-order'
    when page ~ '^/(admin|api)(/|$)' then null
    when exists (select from public.products as p where page = '/shop/' || p.slug) then page
    else 'other'
  end
  from (select coalesce(nullif(rtrim(counted_page.path, '/'), ''), '/') as page) as asked;
$$;

comment on function private.counted_page(text) is
  'Under which page a view is counted: a page of the storefront, ''other'' for an address it does not have, null for staff screens.';

create or replace function public.record_page_views(views jsonb) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into public.page_views as counted (day, path, views)
  select (now() at time zone 'Africa/Nairobi')::date, private.counted_page(seen.path), sum(seen.views)::integer
  from jsonb_to_recordset(record_page_views.views) as seen (path text, views integer)
  where private.counted_page(seen.path) is not null and seen.views > 0
  group by 2
  -- Always in the same order, so that two processes cannot deadlock.
  order by 2
  on conflict (day, path) do update set views = counted.views + excluded.views;
$$;

comment on function public.record_page_views(jsonb) is
  'Adds page views to today''s counts: [{"path": "/shop", "views": 3}, …].';

grant execute on function public.record_page_views(jsonb) to service_role;

create or replace function public.record_backup(
  started_at timestamptz,
  outcome text,
  file_name text default null,
  size bigint default null,
  problem text default null
) returns void
language sql volatile security definer
set search_path = ''
as $$
  insert into public.backups (started_at, outcome, file_name, size, problem)
  values (record_backup.started_at, record_backup.outcome, record_backup.file_name, record_backup.size, record_backup.problem);
  -- Stores about a year of two backups a day.
  delete from public.backups as b where b.id <= (select max(id) - 730 from public.backups);
$$;

comment on function public.record_backup(timestamptz, text, text, bigint, text) is 'Writes down what became of a backup.';

grant execute on function public.record_backup(timestamptz, text, text, bigint, text) to service_role;

create or replace function public.system_status() returns table (
  checked_at timestamptz,
  last_backup_at timestamptz,
  last_backup_outcome text,
  last_attempt_at timestamptz,
  last_attempt_outcome text,
  last_attempt_problem text,
  last_payment_answer_at timestamptz,
  overdue_payments bigint
)
language sql stable security definer
set search_path = ''
as $$
  select private.expect_staff();
  select
    clock_timestamp(),
    made.finished_at,
    made.outcome,
    tried.finished_at,
    tried.outcome,
    tried.problem,
    (select m.received_at from public.payment_messages as m order by m.id desc limit 1),
    (
      select count(*) from public.payments as p
      where p.status in ('initiating', 'processing') and p.created_at < now() - interval '5 minutes'
    )
  from (select) as always
  left join lateral (
    select b.finished_at, b.outcome from public.backups as b
    where b.outcome in ('verified', 'readable') order by b.id desc limit 1
  ) as made on true
  left join lateral (select b.* from public.backups as b order by b.id desc limit 1) as tried on true;
$$;

comment on function public.system_status() is
  'For staff: the last good backup and the last attempt, the last message of M-PESA, and prompts open for more than five minutes.';

grant execute on function public.system_status() to authenticated;

create or replace function private.announce_product_change(old public.products, new public.products) returns void
language plpgsql
set search_path = ''
as $$
declare
  change jsonb := '{"table": "products"}';
begin
  if old.id is not null then
    change := change || jsonb_build_object('old', jsonb_build_object(
      'slug', old.slug, 'category', old.category, 'is_active', old.is_active,
      'home_section', old.home_section, 'home_position', old.home_position));
  end if;
  if new.id is not null then
    change := change || jsonb_build_object('new', jsonb_build_object(
      'slug', new.slug, 'category', new.category, 'is_active', new.is_active,
      'home_section', new.home_section, 'home_position', new.home_position));
  end if;
  -- A notification has at most 8000 bytes. Without keys it means any row of the table.
  if octet_length(change::text) > 7000 then
    change := '{"table": "products"}';
  end if;
  perform pg_catalog.pg_notify('page_changes', change::text);
end
$$;

comment on function private.announce_product_change(public.products, public.products) is
  'Announces on the channel page_changes, as JSON, the keys of a product before and after.';

-- Lets staff screens react within a second when a session has ended or an account is no longer staff.
create or replace function private.announce_access_change() returns trigger
language plpgsql security definer
set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' then
    if new.is_active or not old.is_active then
      return null;
    end if;
  end if;
  -- Only a hint: the screens then query the services. The topic holds the account's id, which only the account knows.
  perform realtime.send('{}'::jsonb, 'access_changed', 'staff-' || old.user_id, false);
  return null;
end
$$;

comment on function private.announce_access_change() is
  'Broadcasts access_changed on the live channel staff-{user_id}: a session of this account ended, or it is no longer active staff.';

comment on column public.categories.is_active is
  'Filters and forms do not offer an inactive category; its products keep it and stay listed.';
comment on column public.deliveries.updated_at is
  'Changes with every edit. A save names the value that it saw, and changes nothing if it has changed since.';
comment on column public.mpesa_transactions.payer_phone is 'As M-PESA reports it: masked or hashed. Never matched.';
comment on column public.outbox_messages.occasion is
  'Distinguishes messages of one kind and order: empty, or the id of the refund by which a payment was sent back. For newsletter mails, the id of the subscription.';
comment on column public.outbox_messages.recipient is 'An email address, or a phone as +254….';
comment on column private.outbox_queue.lease is 'Of the process that leased it last, until due_at.';
comment on column public.products.updated_at is
  'Changes with every edit except of the stock. A save names the value that it saw, and changes nothing if it has changed since.';
comment on column public.statement_pulls.news is 'How many of the payments no statement had listed before.';
comment on column public.store_settings.inquiries_months is 'For how many months inquiries are stored.';
comment on column public.store_settings.mails_per_day is 'The same for emails.';
comment on column public.store_settings.payment_messages_months is
  'For how many months M-PESA''s messages are stored verbatim, with the payer''s name. Kenya asks for records of five years after the year they are of.';
comment on column public.store_settings.support_email is 'Checked by the trigger store_settings_before_change with private.is_email.';
comment on column public.store_settings.updated_at is
  'Changes with every edit. A save names the value that it saw, and changes nothing if it has changed since.';
comment on table public.page_views is
  'How often each page of the storefront was opened, per day in Nairobi. Without data of the visitor: no IP address, no device, no cookie.';
comment on table public.payment_messages is 'M-PESA''s messages, verbatim, stored before they are processed.';
comment on table private.mpesa_registrations is 'What M-PESA has confirmed: the URLs for confirmations, and access to its statement.';
comment on table private.outbox_queue is
  'The messages that wait, and since when or until when. In a table of its own, so that realtime announces changes of messages, not of leases.';
