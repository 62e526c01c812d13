// Checks whether M-PESA can use a callback URL, by the URL alone.

export interface CallbackUrlProblem {
  /** Whether M-PESA rejects the URL or cannot reach it; otherwise a warning. */
  isFatal: boolean;
  sentence: string;
}

// Daraja, C2B: words that URLs must not contain.
const forbiddenWords = ['mpesa', 'm-pesa', 'safaricom', 'exec', 'exe', 'cmd', 'sql', 'query'];
const tunnels = ['ngrok', 'requestbin', 'mockbin', 'localtunnel', 'loca.lt', 'trycloudflare'];

/**
 * Returns the problems of a callback URL (Daraja, STK push and C2B: CallBackURL).
 * @param address full URL without its secret
 * @returns problems with messages for staff
 */
export function checkCallbackUrl(address: string): CallbackUrlProblem[] {
  if (!URL.canParse(address)) return [{ isFatal: true, sentence: 'This is not a valid address.' }];
  const { protocol, hostname, port } = new URL(address);
  const host = hostname.replace(/^\[|\]$/g, '');
  const problems: CallbackUrlProblem[] = [];
  const fatal = (sentence: string) => problems.push({ isFatal: true, sentence });
  if (protocol !== 'https:') {
    fatal('It begins with http://. M-PESA only calls https:// addresses.');
  }
  if (isOwnMachine(host)) {
    fatal(`${host} means the machine that reads it. M-PESA would call itself.`);
  } else if (isPrivate(host)) {
    fatal(`${host} is in a private network, which M-PESA cannot reach.`);
  } else if (/^[\d.]+$/.test(host) || host.includes(':')) {
    fatal('It is a number, not a name. Certificates are made for names, so M-PESA will not trust it.');
  } else if (!host.includes('.')) {
    fatal(`${host} is a name that only your own network knows.`);
  }
  const word = forbiddenWords.find((forbidden) => address.toLowerCase().includes(forbidden));
  if (word) fatal(`It contains "${word}". M-PESA refuses addresses with this word. Choose another domain.`);
  const tunnel = tunnels.find((name) => host.includes(name));
  if (tunnel) fatal(`M-PESA refuses addresses of ${tunnel} in production. Use a domain of your own.`);
  const spelled = /^[a-z]+:\/\/([^/?#]+)/i.exec(address)?.[1] ?? '';
  if (spelled !== spelled.toLowerCase())
    fatal('It has capital letters in its name. M-PESA refuses some of these.');
  if (port !== '') {
    problems.push({
      isFatal: false,
      sentence: `It names port ${port}. M-PESA is known to reach port 443; others may be blocked on the way.`,
    });
  }
  return problems;
}

const isOwnMachine = (host: string) =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  /^127\./.test(host) ||
  host === '::1' ||
  host === '0.0.0.0';

/** Whether a host is a private IP address or a name of a private network. */
function isPrivate(host: string): boolean {
  return (
    /^(10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/.test(
      host,
    ) ||
    /^(fc|fd|fe80)[0-9a-f]*:/i.test(host) ||
    /\.(local|internal|lan|home|test|example|invalid)$/.test(host)
  );
}

/** The kind of an IP address that sent a callback. */
export type CallbackSource =
  | 'mpesa'
  | 'mpesa network'
  | 'this machine'
  | 'private network'
  | 'unknown source'
  | 'unknown';

// Daraja's portal, "Callback and IP Whitelisting", and two historical addresses.
const published = new Set([
  ...[200, 206, 207, 208].map((last) => `196.201.214.${last}`),
  ...[44, 114].map((last) => `196.201.213.${last}`),
  ...[69, 74, 127, 128, 129, 132, 136, 138].map((last) => `196.201.212.${last}`),
]);

/**
 * Classifies the IP address of a callback. It is only a hint: the secret in the URL is the proof.
 * @param address as the proxy reports it; null if unknown
 */
export function callbackSource(address: string | null): CallbackSource {
  const plain = address?.replace(/^::ffff:/i, '') ?? '';
  if (plain === '') return 'unknown';
  if (published.has(plain)) return 'mpesa';
  if (/^196\.201\.21[2-4]\./.test(plain)) return 'mpesa network';
  if (isOwnMachine(plain)) return 'this machine';
  return isPrivate(plain) ? 'private network' : 'unknown source';
}
