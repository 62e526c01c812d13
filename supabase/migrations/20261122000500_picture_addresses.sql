-- A product's picture is an image at a web address or a path of this site: `javascript:` and `data:` addresses are refused.
-- Plain http is allowed for services on the same machine. Browsers drop control characters from addresses and read a
-- backslash as a slash, so neither may occur. domain/product-picture.ts holds the same rule for the screens.

update public.products set image_url = null
where char_length(image_url) > 2000
  or image_url !~ '^(https://[^/]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/])'
  or image_url ~ '[\\\s[:cntrl:]]';

alter table public.products
  add constraint "a picture is at an https address or a path of this site" check (
    char_length(image_url) <= 2000
    and image_url ~ '^(https://[^/]|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/|/[^/])'
    and image_url !~ '[\\\s[:cntrl:]]'
  );
