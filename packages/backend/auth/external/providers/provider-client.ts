// Client of an OpenID Connect or OAuth 2.0 provider: authorization URL and code exchange.
import type { Configuration } from 'openid-client';
import type { Json } from '../../rows.ts';
import type { ExternalProvider } from '../../settings.ts';
import type { Profile } from '../accounts.ts';
import { publicFetch } from '../public-fetch.ts';
import type { providerNamed } from './known-providers.ts';

export type NamedProvider = NonNullable<ReturnType<typeof providerNamed>['provider']>;

/** State of a sign-in while the user is at the provider's page. */
export interface ProviderState {
  verifier: string;
  /** Null for a provider without id tokens. */
  nonce: string | null;
}

// Discovery runs once per provider and process; settings do not change while it runs.
const configurations = new WeakMap<ExternalProvider, Promise<Configuration>>();

/**
 * A provider's endpoints and keys, by discovery if it has an issuer.
 * @param settings the provider's settings, which are the cache key
 */
export function configurationOf(settings: ExternalProvider, provider: NamedProvider): Promise<Configuration> {
  const cached = configurations.get(settings);
  if (cached) return cached;
  const configuration = configure(provider);
  configurations.set(settings, configuration);
  // The next request retries a failure.
  configuration.catch(() => configurations.delete(settings));
  return configuration;
}

async function configure(provider: NamedProvider): Promise<Configuration> {
  const client = await import('openid-client');
  const authentication = provider.secret ? client.ClientSecretPost(provider.secret) : client.None();
  const { issuer, authorizationUrl, tokenUrl, userInfoUrl, jwksUrl } = provider;
  if (issuer && !authorizationUrl) {
    return client.discovery(new URL(issuer), provider.clientId, undefined, authentication, {
      ...(provider.allowsInsecureRequests
        ? { execute: [client.allowInsecureRequests] }
        : { [client.customFetch]: publicFetch }),
      timeout: 10,
    });
  }
  if (!authorizationUrl || !tokenUrl) {
    throw new Error('a provider without an issuer needs authorizationUrl, tokenUrl and userInfoUrl');
  }
  const configuration = new client.Configuration(
    {
      issuer: issuer ?? new URL(authorizationUrl).origin,
      authorization_endpoint: authorizationUrl,
      token_endpoint: tokenUrl,
      ...(userInfoUrl ? { userinfo_endpoint: userInfoUrl } : {}),
      ...(jwksUrl ? { jwks_uri: jwksUrl } : {}),
    },
    provider.clientId,
    undefined,
    authentication,
  );
  configuration.timeout = 10;
  if (provider.allowsInsecureRequests) client.allowInsecureRequests(configuration);
  else configuration[client.customFetch] = publicFetch;
  return configuration;
}

/** The provider's authorization URL, and the state needed on return. */
export async function prepareSignIn(provider: NamedProvider): Promise<ProviderState> {
  const client = await import('openid-client');
  return {
    verifier: client.randomPKCECodeVerifier(),
    nonce: provider.issuer ? client.randomNonce() : null,
  };
}

/** Builds the authorization URL. `extra` are the caller's parameters; ours take precedence. */
export async function signInUrl(
  configuration: Configuration,
  provider: NamedProvider,
  sent: ProviderState & { state: string; callbackUrl: string; scopes: string; extra: Record<string, string> },
): Promise<string> {
  const client = await import('openid-client');
  const always = provider.scopes ?? (provider.issuer ? ['openid', 'email', 'profile'] : []);
  const scopes = [...always, ...sent.scopes.split(/[\s,]+/).filter(Boolean)];
  // Without this scope there is no id token and no nonce to check.
  if (provider.issuer && !scopes.includes('openid')) scopes.unshift('openid');
  return client.buildAuthorizationUrl(configuration, {
    ...sent.extra,
    redirect_uri: sent.callbackUrl,
    response_type: 'code',
    ...(scopes.length > 0 ? { scope: [...new Set(scopes)].join(' ') } : {}),
    state: sent.state,
    code_challenge: await client.calculatePKCECodeChallenge(sent.verifier),
    code_challenge_method: 'S256',
    ...(sent.nonce ? { nonce: sent.nonce } : {}),
    ...(provider.responseMode ? { response_mode: provider.responseMode } : {}),
  }).href;
}

/**
 * Exchanges the code for the provider's tokens.
 * @param answered the callback URL as it was called
 * @throws errors of the code, the id token or the provider
 */
export async function exchangeCode(
  configuration: Configuration,
  answered: URL,
  expected: ProviderState & { state: string },
): Promise<{ accessToken: string; refreshToken: string | null; claims: Json | null }> {
  const client = await import('openid-client');
  const tokens = await client.authorizationCodeGrant(configuration, answered, {
    expectedState: expected.state,
    pkceCodeVerifier: expected.verifier,
    ...(expected.nonce ? { expectedNonce: expected.nonce, idTokenExpected: true } : {}),
  });
  return {
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? null,
    claims: expected.nonce ? ({ ...tokens.claims() } as Json) : null,
  };
}

/** Completes an id token's claims with the provider's user endpoint. */
export async function readProfile(
  configuration: Configuration,
  name: string,
  provider: NamedProvider,
  arrived: { accessToken: string; claims: Json | null },
): Promise<Profile> {
  const client = await import('openid-client');
  const { accessToken, claims } = arrived;
  const endpoint = configuration.serverMetadata().userinfo_endpoint;
  if (claims) {
    const isComplete = typeof claims.email === 'string';
    const extraClaims =
      isComplete || !endpoint
        ? {}
        : await client.fetchUserInfo(configuration, accessToken, String(claims.sub));
    return profileOf(name, provider, { ...extraClaims, ...claims });
  }
  if (!endpoint) throw new Error('the provider has no user endpoint');
  const fetchJson = async (url: string) => {
    const headers = new Headers({ accept: 'application/json', 'user-agent': 'auth-service' });
    const answer = await client.fetchProtectedResource(
      configuration,
      accessToken,
      new URL(url),
      'GET',
      undefined,
      headers,
    );
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    return answer.json();
  };
  const user = (await fetchJson(endpoint)) as Json;
  if (!provider.emailsUrl) return profileOf(name, provider, user);
  const emails = (await fetchJson(provider.emailsUrl)) as {
    email: string;
    primary: boolean;
    verified: boolean;
  }[];
  const main = emails.find(({ primary }) => primary) ?? emails[0];
  return profileOf(name, provider, { ...user, email: main?.email, email_verified: main?.verified });
}

/**
 * Maps claims (OpenID Connect Core, section 5.1) to GoTrue's `identity_data`.
 * @throws Error without a subject
 */
export function profileOf(
  name: string,
  provider: Pick<ExternalProvider, 'isEmailOptional'>,
  claims: Json,
): Profile {
  const subject = claims.sub ?? claims.id;
  if ((typeof subject !== 'string' && typeof subject !== 'number') || subject === '') {
    throw new Error('the provider returned no subject');
  }
  const textClaim = (claim: string) => {
    const value = claims[claim];
    return typeof value === 'string' && value !== '' && !value.includes('\0') ? value : undefined;
  };
  const email = textClaim('email')?.trim().toLowerCase() ?? null;
  const isVerified =
    email !== null &&
    [claims.email_verified, claims.verified].some((value) => value === true || value === 'true');
  const picture = textClaim('picture') ?? textClaim('avatar_url');
  const data = {
    iss: textClaim('iss'),
    sub: String(subject),
    name: textClaim('name'),
    full_name: textClaim('name'),
    given_name: textClaim('given_name'),
    family_name: textClaim('family_name'),
    preferred_username: textClaim('preferred_username') ?? textClaim('login') ?? textClaim('username'),
    locale: textClaim('locale'),
    picture,
    avatar_url: picture,
    provider_id: String(subject),
    email: email ?? undefined,
    email_verified: isVerified,
    phone_verified: false,
  };
  return {
    provider: name,
    subject: String(subject),
    email,
    isEmailVerified: isVerified,
    isEmailOptional: provider.isEmailOptional ?? false,
    data: Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined)),
  };
}
