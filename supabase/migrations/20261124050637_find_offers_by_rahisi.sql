insert into public.search_synonyms (word, means) values ('rahisi', 'offer') on conflict do nothing;
