// Allowed redirect URLs after a sign-in, as in GoTrue: the site, loopback addresses, and patterns of the list. An open redirect
// would leak tokens.
import type { AuthSettings } from '../settings.ts';

/** Characters of a URL that is compared with the patterns of the list. */
const maxLength = 2000;

/** Whether a redirect to a URL is allowed. */
export function isRedirectAllowed(
  target: string,
  settings: Pick<AuthSettings, 'siteUrl' | 'redirectAllowList'>,
): boolean {
  if (target.length > maxLength || !URL.canParse(target)) return false;
  const [url, site] = [new URL(target), new URL(settings.siteUrl)];
  if (url.username || url.password) return false;
  // Never allowed, not even by the list: these schemes run as code.
  if (['javascript:', 'data:', 'vbscript:', 'blob:', 'file:'].includes(url.protocol)) return false;
  if (isWeb(url) && url.protocol === site.protocol && url.host === site.host) return true;
  if (isWeb(url) && isLoopbackAddress(url.hostname)) return true;
  // Compare URLs as browsers parse them.
  const plain = `${url.protocol}//${url.host}${url.pathname}${url.search}`;
  const candidates = isWeb(url) ? [plain, plain.replace(/\/$/, '')] : [target];
  return settings.redirectAllowList.some((glob) => {
    const pattern = globPattern(glob);
    return candidates.some((candidate) => pattern.test(candidate));
  });
}

/** The requested URL when it is allowed, else the referring page, else the site. */
export function redirectOf(
  requested: readonly (string | null)[],
  referer: string | null,
  settings: Pick<AuthSettings, 'siteUrl' | 'redirectAllowList'>,
): string {
  const named = requested.find((url) => url);
  if (named && isRedirectAllowed(named, settings)) return named;
  if (referer && isRedirectAllowed(referer, settings)) return referer;
  return settings.siteUrl;
}

const isWeb = (url: URL) => url.protocol === 'https:' || url.protocol === 'http:';

const isLoopbackAddress = (host: string) => /^127(?:\.\d{1,3}){3}$/.test(host) || host === '[::1]';

function globPattern(glob: string): RegExp {
  const source = glob.replace(/\*\*|\*|\?|[^*?]+/g, (part) => {
    if (part === '**') return '.*';
    if (part === '*') return '[^./]*';
    // A question mark starts a query more often than it stands for any character.
    return part.replace(/[.+^${}()|[\]\\?]/g, '\\$&');
  });
  return new RegExp(`^${source}$`);
}
