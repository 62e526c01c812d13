// Removes secrets and personal data from lines of the log. Of requests only known words, names and operators are left; texts of errors,
// which others write, lose everything that looks like a value.

const masked = '•••';

/** Words of the URLs of pages and services. Every other part of a path may be a value. */
const pathWords = new Set(
  `rest auth storage functions realtime v1 rpc api event shop order track-order receipt pay delivery contact newsletter confirm unsubscribe
  t admin login reset-password dashboard products orders deliveries inquiries messages templates reconciliation days settings texts
  customer-data payments account ride ride-worker.js riders assets art fonts share healthz readyz metrics sitemap.xml robots.txt manifest.webmanifest sw.js _root.data
  mobile-money notice till reversal reach validation confirmation result timeout status outcome websocket broadcast
  token user users signup otp verify recover magiclink resend logout invite generate_link reauthenticate authorize callback sso saml acs
  metadata factors challenge passkeys identities audit health jwks.json .well-known
  bucket object public authenticated sign render image upload resumable info list list-v2 move copy empty`.split(
    /\s+/,
  ),
);
/** Names of tables, columns, functions and parameters: these have no digits, as most values do. */
const plainName = /^[a-z_]{1,60}$/;
const operator =
  /^(?:not\.)?(?:eq|neq|gte?|lte?|i?like|i?match|in|is|isdistinct|(?:pl|ph|w)?fts|cs|cd|ov|sl|sr|nxr|nxl|adj)(?:\((?:any|all)\))?(?=\.)/;
/** Parameters whose values are lists of names. */
const nameLists = new Set(['select', 'columns', 'order', 'on_conflict']);
const numbers = new Set(['limit', 'offset', 'page']);

/**
 * Masks a request's path and query. Masking the result again changes nothing.
 * @param path as received, possibly cut
 */
export function maskPath(path: string): string {
  const at = path.indexOf('?');
  const segments = (at < 0 ? path : path.slice(0, at)).split('/');
  const shown = segments.map((segment, index) => {
    if (segment === '' || pathWords.has(segment)) return segment;
    const [service, , first] = segments.slice(1);
    const isName = service === 'rest' && (index === 3 || (index === 4 && first === 'rpc'));
    return isName && plainName.test(segment) ? segment : masked;
  });
  return shown.join('/') + (at < 0 ? '' : maskQuery(path.slice(at)));
}

function maskQuery(search: string): string {
  const pairs = search
    .slice(1)
    .split('&')
    .map((pair) => {
      const [encodedName = '', ...rest] = pair.split('=');
      const [name, value] = [decoded(encodedName), decoded(rest.join('='))];
      const shownName = name.split('.').every((part) => plainName.test(part)) ? name : masked;
      return rest.length === 0 ? shownName : `${shownName}=${maskValue(name, value)}`;
    });
  return `?${pairs.join('&')}`;
}

function maskValue(parameter: string, value: string): string {
  if (value === '') return '';
  const name = parameter.slice(parameter.lastIndexOf('.') + 1);
  if (numbers.has(name) && /^\d{1,6}$/.test(value)) return value;
  if (nameLists.has(name)) {
    return value.replaceAll(/[^,().:!*]+/g, (part) => (plainName.test(part) ? part : masked));
  }
  const [found] = operator.exec(value) ?? [];
  return found === undefined ? masked : `${found}.${masked}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return masked;
  }
}

/** Values in texts that are not ours, and what is left of them. */
const values: readonly [RegExp, string][] = [
  // PostgreSQL's details: Key (customer_phone)=(0712345678), Failing row contains (…).
  [/=\(.*\)/g, `=(${masked})`],
  [/(row contains) \(.*/g, `$1 (${masked})`],
  // Quoted text is a value, unless PostgreSQL quotes the name of an object.
  [
    /((?:relation|table|column|constraint|function|role|schema|type|index|sequence|view|trigger|database|extension|policy|parameter|setting|package|module) )?"(?:[^"\\]|\\.)*"/gi,
    '',
  ],
  [/[^\s<>"'(),;:]+@[^\s<>"'(),;:]+/g, masked],
  [/\bsb_\w+|\beyJ[\w-]*\.[\w.-]*/g, masked],
  // Tracking numbers and staff's numbers of orders.
  [/\b(?:JJ|ORD)[- ]?\d[\w-]*/gi, masked],
  // Keys, tokens and identifiers; then words as receipts of M-PESA are; then numbers as long as a phone's.
  [/(?<![\w-])(?!\d{14}_)(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}(?![\w-])/g, masked],
  [/\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z\d]{8,}\b/g, masked],
  [/(?:\+|\b)\d(?:[ -]?\d){8,}\b/g, masked],
  [/(?<![\w:.])\d{7,}\b/g, masked],
];

/** Masks the values in a text of an error. */
export function maskText(text: string): string {
  return values.reduce(
    (left, [pattern, replacement]) =>
      replacement === ''
        ? left.replace(pattern, (quoted, kind?: string) =>
            kind && !/\d{4}|@/.test(quoted) ? quoted : `${kind ?? ''}"${masked}"`,
          )
        : left.replace(pattern, replacement),
    text,
  );
}

const frame = /^\s+at .*:\d+:\d+\)?$|^\s+at (?:async |new )?[\w.<>]+ \(<anonymous>\)$/;

/** Fields whose text is ours, or an identifier that finds other lines; all other texts are masked. */
const ownTexts = new Set(
  `requestId method status from to reason where job event kind channel outcome requirement remedy file folder url id paymentId messageId
  level name cause size`.split(/\s+/),
);
const paths = new Set(['path', 'page']);

/** Masks the fields of one line. */
export function maskFields(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, maskField(name, value)]));
}

function maskField(name: string, value: unknown): unknown {
  if (ownTexts.has(name)) return value;
  if (typeof value === 'string') return paths.has(name) ? maskPath(value) : maskLines(value);
  if (Array.isArray(value)) return value.map((each) => maskField(name, each));
  if (value instanceof Error) return maskLines(value.stack ?? String(value));
  return value !== null && typeof value === 'object' ? maskFields(value as Record<string, unknown>) : value;
}

/** Places in the code are left as they are: their lines are not text of an error. */
const maskLines = (text: string) =>
  text
    .split('\n')
    .map((line) => (frame.test(line) ? line : maskText(line)))
    .join('\n');
