// POST /token?grant_type=id_token: signs in with a provider's id token that the client obtained itself.
import type { JWTVerifyGetKey } from 'jose';
import { AuthError, invalid, OAuthError } from '../../auth-error.ts';
import type { AuthContext, AuthRequest } from '../../context.ts';
import { limitNetwork } from '../../limits.ts';
import { flag, text } from '../../requests/fields.ts';
import { answerTokens, startSession } from '../../sessions/sessions.ts';
import { signedIn } from '../../sessions/signed-in.ts';
import type { ExternalProvider } from '../../settings.ts';
import { accountOf, inTransaction, LateRefusal, linkTo } from '../accounts.ts';
import { publicFetch } from '../public-fetch.ts';
import { publishedKeys, verifyIdToken } from './id-token.ts';
import { knownProviders, providerNamed } from './known-providers.ts';
import { configurationOf, type NamedProvider, profileOf } from './provider-client.ts';
import { linkingDisabled } from './sign-in-page.ts';

const keySets = new WeakMap<ExternalProvider, Promise<JWTVerifyGetKey>>();

/**
 * Signs in the subject of an id token, or links it to the signed-in user.
 * @throws OAuthError `invalid request`, `invalid nonce`; AuthError provider_disabled, validation_failed
 */
export async function idTokenGrant(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const token = text(body, 'id_token', 32_768);
  const [named, issuer] = [text(body, 'provider'), text(body, 'issuer')];
  if (!token) throw new OAuthError('invalid request', 'id_token required');
  if (!named && (!issuer || !text(body, 'client_id'))) {
    throw new OAuthError('invalid request', 'provider or client_id and issuer required');
  }
  await limitNetwork(context, 'signIn', request.ip);
  const isLink = flag(body, 'link_identity');
  const target = isLink ? await linkingTarget(request, context) : null;
  const { name, provider, configured } = chosenProvider(named, issuer, context);
  const expected = await Promise.resolve(keysOf(configured, provider)).catch((error) => {
    context.onError(error);
    throw new AuthError(500, 'unexpected_failure', `Provider ${name} cannot be reached`);
  });
  const claims = await verifyIdToken(token, {
    ...expected,
    clientIds: [provider.clientId, ...(provider.furtherClientIds ?? [])],
    nonce: text(body, 'nonce'),
    skipsNonceCheck: provider.skipsNonceCheck ?? false,
    accessToken: text(body, 'access_token', 32_768),
    now: context.now(),
  });
  const profile = profileOf(name, provider, claims);
  const tokens = await inTransaction(context, async (tx) => {
    const user = target
      ? await linkTo(tx, context, target, profile, request)
      : await accountOf(tx, context, profile, request);
    return user instanceof LateRefusal ? user : startSession(tx, context, { user, method: 'oauth', request });
  });
  return answerTokens(tokens);
}

async function linkingTarget(request: AuthRequest, context: AuthContext): Promise<string> {
  if (!request.bearer) {
    throw new OAuthError('invalid request', 'Linking requires a valid user access token in Authorization');
  }
  if (!context.settings.isManualLinkingEnabled) throw linkingDisabled();
  return (await signedIn(request, context)).user.id;
}

function chosenProvider(
  named: string,
  issuer: string,
  { settings }: AuthContext,
): { name: string; provider: NamedProvider; configured: ExternalProvider } {
  const all = [...new Set([...Object.keys(settings.external), ...Object.keys(knownProviders)])];
  const byIssuer = all.find((name) => providerNamed(name, settings.external).issuer === issuer);
  const {
    name,
    provider,
    isKnown,
    issuer: ownIssuer,
  } = providerNamed(named || byIssuer || '', settings.external);
  const configured = settings.external[name];
  if (provider && configured) {
    if (!provider.issuer) throw invalid(`Provider "${name}" is not an OIDC provider`);
    if (issuer && issuer !== provider.issuer) {
      throw invalid('Provided issuer does not match ID token issuer');
    }
    return { name, provider, configured };
  }
  if (isKnown) {
    throw new AuthError(400, 'provider_disabled', `Provider (issuer "${ownIssuer}") is not enabled`);
  }
  if (name.startsWith('custom:')) throw invalid(`Custom provider "${named}" not found`);
  throw invalid(`Custom OIDC provider "${named}" not allowed`);
}

async function keysOf(
  configured: ExternalProvider,
  provider: NamedProvider,
): Promise<{ keys: JWTVerifyGetKey; issuer: string }> {
  const server = (await configurationOf(configured, provider)).serverMetadata();
  const keySet =
    keySets.get(configured) ??
    Promise.resolve().then(() => {
      if (!server.jwks_uri) throw new Error('the provider publishes no keys');
      return publishedKeys(server.jwks_uri, provider.allowsInsecureRequests ? fetch : publicFetch);
    });
  keySets.set(configured, keySet);
  keySet.catch(() => keySets.delete(configured));
  return { keys: await keySet, issuer: server.issuer };
}
