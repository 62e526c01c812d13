// Who sends a request, as the backend's root has established it for all services.
import type { Claims } from './database/as-role.ts';
import type { PlainRequest } from './plain-request.ts';
import type { PlainResponse } from './plain-response.ts';

export interface Caller {
  /** Verified: from an API key or an access token; role `anon` when there is neither. */
  claims: Claims;
  /** The network address the request came from, where known. */
  address: string | null;
  /** Set when a token was needed and is missing ('') or not accepted; for services that answer it in their own words. */
  tokenFault?: { token: string; message: string };
}

/** What every service of the backend is to its root. */
export interface Service {
  fetch(request: Request, caller: Caller): Promise<Response>;
  /** The same for plain requests too, and without a stream for what is at hand, where the service has that. */
  answer?(request: Request | PlainRequest, caller: Caller): Promise<Response | PlainResponse>;
}
