-- Pictures of products: staff put them under products/, everyone sees them.

insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
values (
  'product-images', 'product-images', true, 10 * 1024 * 1024,
  array['image/jpeg', 'image/png', 'image/webp', 'image/avif', 'image/gif']
)
on conflict (id) do update set
  public = excluded.public,
  file_size_limit = excluded.file_size_limit,
  allowed_mime_types = excluded.allowed_mime_types;

create policy "everyone reads product images" on storage.objects
  for select to anon, authenticated using (bucket_id = 'product-images');
create policy "staff upload product images" on storage.objects
  for insert to authenticated with check (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );
create policy "staff replace product images" on storage.objects
  for update to authenticated
  using (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  )
  with check (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );
create policy "staff delete product images" on storage.objects
  for delete to authenticated using (
    bucket_id = 'product-images' and (storage.foldername(name))[1] = 'products' and (select public.is_admin())
  );
