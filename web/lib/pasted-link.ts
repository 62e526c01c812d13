// Links as chats and people pass them on: with punctuation and invisible characters after their end.

/** What no page's URL ends with. */
const added = /[\s\p{Cf}\p{Zs}.,;:!?'"`´‘’‚“”„«»‹›…*_~|()[\]{}<>]+$/u;
/** Keys of short links and secrets of riders' links may end with an underscore, but have 22 and 24 characters. */
const linkWithKey = /^\/(?:t\/\d{8}-\d{4,6}-[A-Za-z0-9_-]{22}|ride\/[A-Za-z0-9_-]{24})/;
/** Parameters of links in messages. */
const parameters = ['key', 'tracking'];

/**
 * Removes what was added to the end of a link.
 * @param url of a requested page; its length is bounded by the server
 * @returns path and query without it; null where nothing was added
 */
export function linkWithoutPunctuation(url: URL): string | null {
  let path: string;
  try {
    path = decodeURIComponent(url.pathname);
  } catch {
    return null;
  }
  const [kept = ''] = linkWithKey.exec(path) ?? [];
  const rest = path.slice(kept.length).replace(added, '');
  const cleaned = new URL(url);
  if (kept + rest !== path) cleaned.pathname = kept + rest.replace(/(.)\/+$/, '$1') || '/';
  for (const name of parameters) {
    const value = url.searchParams.get(name);
    if (value !== null && added.test(value)) cleaned.searchParams.set(name, value.replace(added, ''));
  }
  if (cleaned.href === url.href) return null;
  // A path that starts with two slashes would name another host.
  return `${cleaned.pathname.replace(/^\/+/, '/')}${cleaned.search}`;
}
