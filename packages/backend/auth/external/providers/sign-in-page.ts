// GET /authorize and GET|POST /callback: redirects to a provider's page, and handles the return.
import type { Session } from '../../../database/database.ts';
import { AuthError, invalid, OAuthError } from '../../auth-error.ts';
import {
  endFlow,
  type FlowStateRow,
  findFlow,
  issueAuthCode,
  readPkce,
  startFlow,
} from '../../codes/flow-state.ts';
import type { AuthContext, AuthRequest, Fields, UserRequest } from '../../context.ts';
import { at } from '../../context.ts';
import { limitNetwork } from '../../limits.ts';
import { isUuid, text } from '../../requests/fields.ts';
import { startSession } from '../../sessions/sessions.ts';
import type { ExternalProvider } from '../../settings.ts';
import {
  acceptInvite,
  accountOf,
  inTransaction,
  invitedBy,
  LateRefusal,
  linkTo,
  type Profile,
} from '../accounts.ts';
import { asAuthError, redirect, withError, withQuery, withTokens } from '../redirect-answer.ts';
import { providerNamed } from './known-providers.ts';
import {
  configurationOf,
  exchangeCode,
  type NamedProvider,
  type ProviderState,
  prepareSignIn,
  readProfile,
  signInUrl,
} from './provider-client.ts';

/** Parameters that a client may not set in the provider's URL. */
const ownParameters = new Set([
  'provider',
  'scopes',
  'scope',
  'redirect_to',
  'invite_token',
  'skip_http_redirect',
  'apikey',
  'client_id',
  'client_secret',
  'redirect_uri',
  'response_type',
  'response_mode',
  'state',
  'nonce',
  'code_challenge',
  'code_challenge_method',
  'request',
  'request_uri',
]);

/** Redirects to a provider's page. @throws AuthError validation_failed, user_not_found */
export async function authorize(request: AuthRequest, context: AuthContext): Promise<Response> {
  return redirect(302, await startSignIn(request, context, null));
}

/** Redirects a signed-in user to a provider's page, to link that identity. */
export async function authorizeLink(request: UserRequest, context: AuthContext): Promise<Response> {
  if (!context.settings.isManualLinkingEnabled) throw linkingDisabled();
  const url = await startSignIn(request, context, request.user.id);
  const isAsked = request.url.searchParams.get('skip_http_redirect') === 'true';
  return isAsked ? Response.json({ url }) : redirect(302, url);
}

/** 404 manual_linking_disabled. */
export const linkingDisabled = () =>
  new AuthError(404, 'manual_linking_disabled', 'Manual linking is disabled');

/** Handles the return from a provider's page. Always redirects: to the requested URL, or to the site with the error. */
export async function callback(request: AuthRequest, context: AuthContext): Promise<Response> {
  const answered: Fields =
    request.method === 'POST' ? request.body : Object.fromEntries(request.url.searchParams);
  let flow: FlowStateRow;
  try {
    flow = await takeFlow(context, answered.state);
  } catch (error) {
    const authError = asAuthError(error);
    if (authError !== error) context.onError(error);
    return redirect(303, withError(context.settings.siteUrl, authError, false));
  }
  const place = flow.referrer ?? context.settings.siteUrl;
  try {
    const arrival = await arrive(context, flow, answered);
    return redirect(302, await enter({ ...request, redirectTo: place }, context, flow, arrival));
  } catch (error) {
    const authError = asAuthError(error);
    if (authError !== error) context.onError(error);
    return redirect(302, withError(place, authError, true));
  }
}

async function startSignIn(
  request: AuthRequest,
  context: AuthContext,
  linkingTargetId: string | null,
): Promise<string> {
  const query = request.url.searchParams;
  const parameters = Object.fromEntries(query);
  await limitNetwork(context, 'sso', request.ip);
  const { name, provider, configured } = providerOf(text(parameters, 'provider'), context);
  const pkce = readPkce(parameters);
  const inviteToken = text(parameters, 'invite_token', 128) || null;
  if (inviteToken && !(await invitedBy(context.database, inviteToken))) {
    throw new AuthError(404, 'user_not_found', 'User identified by token not found');
  }
  const configuration = await configurationOf(configured, provider).catch((error) => {
    context.onError(error);
    throw new AuthError(500, 'unexpected_failure', `Provider ${name} cannot be reached`);
  });
  const remembered = await prepareSignIn(provider);
  const state = await startFlow(context.database, context, {
    providerType: name,
    method: 'oauth',
    pkce,
    referrer: request.redirectTo,
    inviteToken,
    linkingTargetId,
    clientState: { ...remembered },
  });
  return signInUrl(configuration, provider, {
    ...remembered,
    state,
    callbackUrl: `${context.settings.externalUrl}/callback`,
    scopes: text(parameters, 'scopes'),
    extra: Object.fromEntries([...query].filter(([key]) => !ownParameters.has(key.toLowerCase()))),
  });
}

function providerOf(
  named: string,
  { settings }: AuthContext,
): { name: string; provider: NamedProvider; configured: ExternalProvider } {
  const { name, provider, isKnown } = providerNamed(named, settings.external);
  const configured = settings.external[name];
  if (provider && configured) return { name, provider, configured };
  throw invalid(
    `Unsupported provider: ${isKnown ? 'provider is not enabled' : `Provider ${name} could not be found`}`,
  );
}

/** Takes the flow of a state, once. */
async function takeFlow(context: AuthContext, state: unknown): Promise<FlowStateRow> {
  if (typeof state !== 'string' || state === '') {
    throw new AuthError(400, 'bad_oauth_callback', 'OAuth state parameter missing');
  }
  if (!isUuid(state)) throw new AuthError(400, 'bad_oauth_state', 'OAuth state parameter is invalid');
  return context.database.transaction(async (tx) => {
    const flow = await findFlow(tx, { id: state });
    if (flow?.authentication_method !== 'oauth') {
      throw new AuthError(400, 'bad_oauth_state', 'OAuth state not found or expired');
    }
    const age = (context.now().getTime() - new Date(flow.created_at).getTime()) / 1000;
    if (age > context.settings.flowLifetime) {
      throw new AuthError(400, 'bad_oauth_state', 'OAuth state has expired');
    }
    if (flow.used_at !== null) {
      throw new AuthError(400, 'flow_state_already_used', 'State has already been used');
    }
    await tx.query('update auth.flow_state set used_at = $2::timestamptz where id = $1::uuid', [
      flow.id,
      at(context),
    ]);
    return flow;
  });
}

interface Arrival {
  profile: Profile;
  accessToken: string;
  refreshToken: string | null;
}

async function arrive(context: AuthContext, flow: FlowStateRow, answered: Fields): Promise<Arrival> {
  const answerParameter = (name: string) => text(answered, name, 4096);
  if (answerParameter('error'))
    throw new OAuthError(answerParameter('error'), answerParameter('error_description'));
  const code = answerParameter('code');
  if (!code) {
    const message = 'OAuth callback with missing authorization code missing';
    throw new AuthError(400, 'bad_oauth_callback', message);
  }
  const { name, provider, isKnown } = providerNamed(flow.provider_type, context.settings.external);
  const configured = context.settings.external[name];
  if (!provider || !configured) {
    const reason = isKnown ? 'provider is not enabled' : `Provider ${name} could not be found`;
    throw new AuthError(400, 'oauth_provider_not_supported', `Unsupported provider: ${reason}`);
  }
  const url = new URL(`${context.settings.externalUrl}/callback`);
  for (const parameter of ['code', 'state', 'iss']) {
    if (answerParameter(parameter)) url.searchParams.set(parameter, answerParameter(parameter));
  }
  const remembered = flow.client_state as unknown as ProviderState;
  const failed = (message: string) => (error: unknown) => {
    context.onError(error);
    throw new AuthError(500, 'unexpected_failure', message);
  };
  const configuration = await configurationOf(configured, provider).catch(
    failed(`Provider ${name} cannot be reached`),
  );
  const { accessToken, refreshToken, claims } = await exchangeCode(configuration, url, {
    ...remembered,
    state: flow.id,
  }).catch(failed(`Unable to exchange external code: ${code.slice(0, 4)}`));
  const profile = await readProfile(configuration, name, provider, { accessToken, claims }).catch(
    failed('Error getting user profile from external provider'),
  );
  if (!profile.email && !profile.isEmailOptional) {
    throw new AuthError(500, 'unexpected_failure', 'Error getting user email from external provider');
  }
  return { profile, accessToken, refreshToken };
}

/** Signs the user in and returns the redirect URL. */
async function enter(
  request: AuthRequest,
  context: AuthContext,
  flow: FlowStateRow,
  { profile, accessToken, refreshToken }: Arrival,
): Promise<string> {
  const personOf = (tx: Session) => {
    if (flow.linking_target_id) return linkTo(tx, context, flow.linking_target_id, profile, request);
    if (flow.invite_token) return acceptInvite(tx, context, flow.invite_token, profile, request);
    return accountOf(tx, context, profile, request);
  };
  return inTransaction(context, async (tx) => {
    const user = await personOf(tx);
    if (user instanceof LateRefusal) return user;
    if (flow.code_challenge) {
      const code = await issueAuthCode(tx, context, flow.id, {
        userId: user.id,
        providerAccessToken: accessToken,
        providerRefreshToken: refreshToken,
      });
      return withQuery(request.redirectTo, { code });
    }
    const tokens = await startSession(tx, context, { user, method: 'oauth', request });
    await endFlow(tx, flow.id);
    return withTokens(request.redirectTo, {
      ...tokens,
      provider_token: accessToken,
      ...(refreshToken ? { provider_refresh_token: refreshToken } : {}),
    });
  });
}
