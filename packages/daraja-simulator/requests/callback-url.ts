// Which callback URLs Daraja accepts. It checks them when it receives the push.

const FORBIDDEN_WORDS = ['mpesa', 'm-pesa', 'safaricom', 'exe', 'cmd', 'sql', 'query'];

function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(\.\d{1,3}){3}$/.test(hostname)
  );
}

/** HTTPS, or HTTP on this machine; host in lower case; none of the forbidden words anywhere. */
export function isAcceptedCallbackUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const isReachable = url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
  const writtenHost = /^[a-z]+:\/\/([^/?#]*)/i.exec(text)?.[1] ?? '';
  const lowered = text.toLowerCase();
  return (
    isReachable &&
    url.username === '' &&
    url.hash === '' &&
    writtenHost === writtenHost.toLowerCase() &&
    !FORBIDDEN_WORDS.some((word) => lowered.includes(word))
  );
}
