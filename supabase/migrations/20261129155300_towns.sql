-- Earlier versions keep working: they read the spellings of areas as before.

-- Names that the owner gave to another area stay there, and a renamed area stays as it is.
with known as (
  select lower(unnest(a.spellings || a.name)) as name from public.delivery_areas as a
), missing as (
  select array_agg(town.name) as names
  from unnest(array[
  'Thika', 'Juja', 'Ukunda', 'Kiserian', 'Isinya', 'Gatundu', 'Tala', 'Kangundo', 'Kenol', 'Makuyu', 'Mwea', 'Wanguru',
  'Kutus', 'Sagana', 'Othaya', 'Matuu', 'Kibwezi', 'Makindu', 'Mai Mahiu', 'Ol Kalou', 'Elburgon', 'Burnt Forest', 'Turbo',
  'Moi''s Bridge', 'Nkubu', 'Timau', 'Rumuruti', 'Mariakani', 'Likoni', 'Kisauni', 'Bamburi', 'Msambweni', 'Ahero',
  'Muhoroni', 'Luanda', 'Kimilili', 'Rongo', 'Awendo', 'Oyugis', 'Isebania', 'Kehancha', 'Keroka', 'Ogembo', 'Kilgoris',
  'Litein', 'Sotik', 'Dadaab', 'Habaswein', 'Elwak'
  ]) as town (name)
  where lower(town.name) not in (select k.name from known as k)
)
update public.delivery_areas as a
set spellings = a.spellings || m.names
from missing as m
where a.name = 'Outside Nairobi' and cardinality(a.spellings || m.names) <= 200;
