// Parts of an HTTP server that answers for the services.

export { createPublicFetch, type Fetch, PrivateAddress, publicFetch } from '../auth/external/public-fetch.ts';
export { clientAddressOf, establishClientAddress } from '../http/client-address.ts';
export { isClientDisconnect } from '../http/client-disconnect.ts';
export {
  BoundedRequest,
  BoundedResponse,
  defaultConnectionLimits,
  limitConnections,
} from '../http/connection-limits.ts';
export { maxWebSockets } from '../http/file-limit.ts';
export { closeServer, listen, UnusableAddress } from '../http/listen.ts';
export { addressOf, PlainRequest } from '../http/plain-request.ts';
export { PlainResponse } from '../http/plain-response.ts';
export { rawHeader } from '../http/raw-header.ts';
export { readPlain } from '../http/read-plain.ts';
export { refuseUpgrade } from '../http/refuse-upgrade.ts';
export { sendPlain } from '../http/send-plain.ts';
