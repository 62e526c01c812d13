// Requests to URLs from settings or other servers. Only public IP addresses are allowed, since others would let a caller reach
// this machine or its network (server-side request forgery).
import { type LookupAddress, lookup as resolveName } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Agent } from 'undici';

const timeoutMs = 10_000;
const maxResponseBytes = 1_048_576;

/** A host with an IP address that is not public. */
export class PrivateAddress extends Error {
  override readonly name = 'PrivateAddress';
}

/** Whether an IP address is public: not private, local, reserved or mapped to another one. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  const isGlobal = parsed.kind() === 'ipv4' || parsed.match(ipaddr.parse('2000::'), 3);
  return isGlobal && parsed.range() === 'unicast';
}

/** The used part of `fetch`, in a type that other packages accept. */
export type Fetch = (url: string | URL, init?: object) => Promise<Response>;

export interface PublicFetchOptions {
  /** Default: `isPublicAddress`. */
  isAllowed?: (address: string) => boolean;
  /** Resolves all addresses of a name. Default: the system's resolver. */
  resolve?: (name: string) => Promise<LookupAddress[]>;
  /** Certificate authorities in PEM. Default: Node's. */
  ca?: string;
}

/**
 * Creates a `fetch` over https that connects only to names whose addresses are all allowed. It checks every connection,
 * redirects included, and connects to a checked address, so that DNS rebinding gains nothing.
 * @returns a `fetch` that rejects with a TypeError whose `cause` is PrivateAddress; responses have at most 1 MiB
 */
export function createPublicFetch(options: PublicFetchOptions = {}): Fetch {
  let agent: Promise<Agent> | null = null;
  return async (url, init) => {
    // Loaded at the first request: most services have no such provider.
    const { fetch: fetchUrl } = await import('undici');
    agent ??= createAgent(options);
    return (await fetchUrl(url, { ...init, dispatcher: await agent })) as unknown as Response;
  };
}

async function createAgent(options: PublicFetchOptions): Promise<Agent> {
  const { Agent, buildConnector } = await import('undici');
  const { isAllowed = isPublicAddress, resolve = resolveAll, ca } = options;
  const refuse = (host: string) => new PrivateAddress(`${host} is not an address of the public internet`);
  const lookup: LookupFunction = (name, { all }, callback) => {
    resolve(name).then(
      (addresses) => {
        const [first] = addresses;
        if (!first || !addresses.every(({ address }) => isAllowed(address))) callback(refuse(name), []);
        else if (all) callback(null, addresses);
        else callback(null, first.address, first.family);
      },
      (error) => callback(error, []),
    );
  };
  const connect = buildConnector({ timeout: timeoutMs, lookup, ...(ca ? { ca } : {}) });
  return new Agent({
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: maxResponseBytes,
    connect(target, callback) {
      const host = target.hostname.replace(/^\[|\]$/g, '');
      if (target.protocol !== 'https:') callback(new Error(`${target.protocol} is not https:`), null);
      // An IP address needs no lookup.
      else if (isIP(host) !== 0 && !isAllowed(host)) callback(refuse(host), null);
      else connect(target, callback);
    },
  });
}

const resolveAll = (name: string): Promise<LookupAddress[]> =>
  new Promise((done, fail) =>
    resolveName(name, { all: true }, (error, addresses) => (error ? fail(error) : done(addresses))),
  );

/** Reaches the public internet only. */
export const publicFetch = createPublicFetch();
