// A local OpenID provider, and a browser that follows its redirects.
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js';

export const clientId = 'our-client';
export const clientSecret = 'a secret between the two';

export interface OpenIdProvider {
  issuer: string;
  /** Claims of the users, by their name. A `login_hint` in the request selects the user, or `cancel` to deny access. */
  people: Map<string, Record<string, unknown>>;
  /** Registers our client with its callback URL. */
  register(redirectUri: string): void;
  /** An id token as issued to a native app. */
  idToken(claims: JWTPayload): Promise<string>;
  close(): Promise<void>;
}

/** Starts a provider. It is ready after `register`. */
export async function openOpenIdProvider(): Promise<OpenIdProvider> {
  const { Provider } = await importProvider();
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: randomUUID() };
  const people = new Map<string, Record<string, unknown>>();
  let listener: RequestListener = (_, response) => response.writeHead(503).end();
  const server = createServer((request, response) => listener(request, response));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;

  return {
    issuer,
    people,
    register(redirectUri) {
      const provider = new Provider(issuer, configuration(redirectUri, key, people));
      const answer = provider.callback();
      const interact: RequestListener = async (request, response) => {
        const { params } = await provider.interactionDetails(request, response);
        const accountId = params.login_hint ?? '';
        if (!people.has(accountId)) {
          const error = { error: 'access_denied', error_description: 'The user cancelled' };
          await provider.interactionFinished(request, response, error);
          return;
        }
        const grant = new provider.Grant({ accountId, clientId });
        grant.addOIDCScope(params.scope ?? '');
        await provider.interactionFinished(request, response, {
          login: { accountId },
          consent: { grantId: await grant.save() },
        });
      };
      listener = (request, response) => {
        const handle = request.url?.startsWith('/interaction/') ? interact : answer;
        void handle(request, response);
      };
    },
    async idToken(claims) {
      const now = Math.floor(Date.now() / 1000);
      return new SignJWT({ iss: issuer, aud: clientId, iat: now, exp: now + 300, ...claims })
        .setProtectedHeader({ alg: 'ES256', kid: key.kid })
        .sign(privateKey);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

/** The package works on Node 20, but warns on standard error that it does not support it. */
async function importProvider() {
  const { warn } = console;
  console.warn = () => {};
  try {
    return await import('oidc-provider');
  } finally {
    console.warn = warn;
  }
}

function configuration(redirectUri: string, key: object, people: Map<string, Record<string, unknown>>) {
  return {
    adapter: createMemoryAdapter(0),
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
        id_token_signed_response_alg: 'ES256',
      },
    ],
    jwks: { keys: [key] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'picture'] },
    cookies: { keys: [randomUUID()] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    issueRefreshToken: async () => true,
    findAccount: async (_: unknown, sub: string) => ({
      accountId: sub,
      claims: async () => ({ sub, ...people.get(sub) }),
    }),
    pkce: { required: () => true },
    ttl: {
      AccessToken: 600,
      AuthorizationCode: 60,
      Grant: 600,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: 600,
      Session: 600,
    },
  };
}

export interface Browser {
  /** Opens a page and follows redirects up to a URL that starts with `stop`. Returns the last URL. */
  follow(url: string, stop: string): Promise<URL>;
}

/** A browser with cookies only. */
export function openBrowser(): Browser {
  const cookies = new Map<string, string>();
  return {
    async follow(first, stop) {
      let url = new URL(first);
      for (let hops = 0; hops < 20; hops += 1) {
        if (url.href.startsWith(stop)) return url;
        const sent = [...cookies].filter(([name]) => name.startsWith(`${url.host} `));
        const cookie = sent.map(([name, value]) => `${name.slice(url.host.length + 1)}=${value}`).join('; ');
        const answer = await fetch(url, { redirect: 'manual', headers: { cookie } });
        for (const line of answer.headers.getSetCookie()) {
          const [pair = ''] = line.split(';');
          const [name = '', value = ''] = pair.split(/=(.*)/s);
          cookies.set(`${url.host} ${name}`, value);
        }
        const location = answer.headers.get('location');
        if (!location) throw new Error(`${url.href} answered ${answer.status}: ${await answer.text()}`);
        url = new URL(location, url);
      }
      throw new Error('too many redirects');
    },
  };
}
