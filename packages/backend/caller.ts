// The caller of a request, determined once for all services.

import type { Claims } from './database/as-role.ts';
import type { PlainRequest } from './http/plain-request.ts';
import type { PlainResponse } from './http/plain-response.ts';

export interface Caller {
  /** Verified: from an API key or an access token; role `anon` when there is neither. */
  claims: Claims;
  /** The client's IP address, if known. */
  address: string | null;
  /**
   * Set when the request has no valid token or API key; for services with their own error format. `token` is null without
   * an Authorization header and '' when that header holds no bearer token. `isSigned`: only the token's role is not one of ours.
   */
  tokenError?: { token: string | null; message: string; isSigned: boolean };
  /**
   * Runs work in the caller's share of a fair queue. Calls must not be nested. Absent: the work needs no queue, because its request
   * has left the queue already, or because it is a job of this process.
   * @throws QueueFull, ClientDisconnected
   */
  inShare?: <T>(queue: SharedQueue, cost: number, job: JobOf<T>) => Promise<T>;
}

/** The queues that services choose from (see FairShare). In `partners` all callers have one share. */
export type SharedQueue = 'work' | 'outbound' | 'messages' | 'partners';

/** A job that may add to its cost while it runs. */
export type JobOf<T> = (addCost: (cost: number) => void) => Promise<T>;

/** Runs work in the caller's share of a fair queue, or immediately where the caller has none. */
export function inShareOf<T>(
  { inShare }: Pick<Caller, 'inShare'>,
  queue: SharedQueue,
  cost: number,
  job: JobOf<T>,
): Promise<T> {
  return inShare ? inShare(queue, cost, job) : job(() => {});
}

/** A service's requirements, which the root checks before it passes a request. */
interface AccessPolicy {
  /**
   * Requests without a valid token or API key: `refused` by the root, or `reported` to the service in `tokenError`.
   * `ignored`: the root reads no token, and every caller is a visitor; the service reads tokens itself.
   */
  badToken: 'refused' | 'reported' | 'ignored';
  /** Whether the service itself answers the preflight requests of browsers. Default: false. */
  answersPreflight?: boolean;
  /** Paths within the service where pages of other sites may post a form. Default: none. */
  formPaths?: readonly string[];
}

/** A service of the backend. */
export interface Service {
  readonly policy: AccessPolicy;
  fetch(request: Request, caller: Caller): Promise<Response>;
  /** As `fetch`, for plain requests, and without a stream for complete bodies, if the service supports it. */
  answer?(request: Request | PlainRequest, caller: Caller): Promise<Response | PlainResponse>;
}
