-- They are called in every policy and several times in an order. Their bodies were read when they were created, so they need no
-- search_path; without one they become part of their caller's plan instead of being planned at each call.
alter function auth.jwt() reset search_path;
alter function auth.uid() reset search_path;
alter function auth.role() reset search_path;
alter function auth.email() reset search_path;
