// Requests that a staff page sends while its scripts are loading (`web/admin/data/early-requests.tsx`), so that a slow line carries both.
import { writeStored } from './browser-storage.ts';

interface EarlyRequest {
  /** Access token of the session, or ''. */
  token: string;
  answer: Promise<Response>;
}

declare global {
  interface Window {
    /** By `earlyKey`. */
    earlyRequests?: Record<string, EarlyRequest>;
  }
}

/** Stores whose session may read the orders, or '' for none: a request for them by another one would be refused. */
export const noteReaderOfOrders = (token: string): void => writeStored(readerOfOrdersKey, token.slice(-32));

/** Where the end of that session's access token is stored. */
export const readerOfOrdersKey = 'jani.staff-session';

/** Identifies a request. */
export const earlyKey = (method: string, url: string, body: string): string => `${method} ${url} ${body}`;

/** As `fetch`; takes the answer to a request that the page has sent already, once and for the same session. */
export const fetchUnlessSent: typeof fetch = async (input, init) => {
  const answer = await takeAnswer(input, init);
  return answer?.ok ? answer : fetch(input, init);
};

async function takeAnswer(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response | null> {
  const sent = window.earlyRequests;
  const { method = 'GET', body } = init;
  if (!sent || input instanceof Request || (body && typeof body !== 'string')) return null;
  const key = earlyKey(method, String(input), body ?? '');
  const early = sent[key];
  delete sent[key];
  const authorization = new Headers(init.headers).get('authorization') ?? '';
  if (!early || authorization.replace('Bearer ', '') !== early.token) return null;
  return early.answer.catch(() => null);
}
