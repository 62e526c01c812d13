// POST /token?grant_type=pkce: exchanges the authorization code of a redirect.
import type { Session } from '../../database/database.ts';
import { audit } from '../audit.ts';
import { AuthError, invalid } from '../auth-error.ts';
import { endFlow, type FlowStateRow, findFlow, isVerifierOf } from '../codes/flow-state.ts';
import type { AuthContext, AuthRequest } from '../context.ts';
import { limitNetwork } from '../limits.ts';
import { text } from '../requests/fields.ts';
import {
  type AuthenticationMethod,
  answerTokens,
  startSession,
  type TokenResponse,
} from '../sessions/sessions.ts';
import { findUser, isBanned } from '../users/users.ts';
import { limitSessionTo } from './sso/session-end.ts';

/**
 * Exchanges an authorization code for tokens, once.
 * @throws AuthError validation_failed, flow_state_not_found (404), flow_state_expired (422), bad_code_verifier
 */
export async function pkceGrant(request: AuthRequest, context: AuthContext): Promise<Response> {
  const [authCode, verifier] = [text(request.body, 'auth_code'), text(request.body, 'code_verifier', 256)];
  if (!authCode || !verifier) {
    throw invalid('invalid request: both auth code and code verifier should be non-empty');
  }
  const tokens = await context.database
    .transaction((tx) => exchange(tx, request, context, authCode, verifier))
    .catch(async (error) => {
      // A valid code cannot be guessed: only unknown ones count.
      const isUnknown = error instanceof AuthError && error.code === 'flow_state_not_found';
      if (isUnknown) await limitNetwork(context, 'verify', request.ip);
      throw error;
    });
  return answerTokens(tokens);
}

async function exchange(
  tx: Session,
  request: AuthRequest,
  context: AuthContext,
  authCode: string,
  verifier: string,
): Promise<TokenResponse> {
  const flow = await findFlow(tx, { authCode });
  const user = flow?.user_id ? await findUser(tx, { id: flow.user_id }, { lock: true }) : null;
  if (!flow || !user || user.deleted_at !== null) {
    const message = 'invalid flow state, no valid flow state found';
    throw new AuthError(404, 'flow_state_not_found', message);
  }
  if (isExpired(flow, context)) {
    throw new AuthError(422, 'flow_state_expired', 'invalid flow state, flow state has expired');
  }
  if (!isVerifierOf(flow, verifier)) {
    const message = 'code challenge does not match previously saved code verifier';
    throw new AuthError(400, 'bad_code_verifier', message);
  }
  if (isBanned(user, context)) throw new AuthError(403, 'user_banned', 'User is banned');
  await audit(tx, context, 'login', user, request, { provider_type: flow.provider_type });
  const isCompany = flow.provider_type.startsWith('sso:');
  const started = await startSession(tx, context, {
    user,
    method: flow.authentication_method as AuthenticationMethod,
    provider: isCompany ? flow.provider_type.slice('sso:'.length) : undefined,
    request,
  });
  await limitSessionTo(tx, started, flow.client_state?.sessionEnd);
  await endFlow(tx, flow.id);
  return {
    ...started,
    ...(flow.provider_access_token ? { provider_token: flow.provider_access_token } : {}),
    ...(flow.provider_refresh_token ? { provider_refresh_token: flow.provider_refresh_token } : {}),
  };
}

function isExpired(flow: FlowStateRow, context: AuthContext): boolean {
  const issuedAt = new Date(flow.auth_code_issued_at ?? flow.created_at).getTime();
  return context.now().getTime() - issuedAt > context.settings.authCodeLifetime * 1000;
}
