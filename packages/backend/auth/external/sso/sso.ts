// POST /sso and its responses: users sign in at their company's identity provider.
import { randomUUID } from 'node:crypto';
import type { Session } from '../../../database/database.ts';
import { AuthError, invalid } from '../../auth-error.ts';
import { endFlow, findFlow, issueAuthCode, readPkce, startFlow } from '../../codes/flow-state.ts';
import type { AuthContext, AuthRequest } from '../../context.ts';
import { at } from '../../context.ts';
import { limitNetwork } from '../../limits.ts';
import { flag, isUuid, text } from '../../requests/fields.ts';
import { isRedirectAllowed } from '../../requests/redirects.ts';
import { startSession } from '../../sessions/sessions.ts';
import { accountOf, inTransaction, LateRefusal, type Profile } from '../accounts.ts';
import { asAuthError, redirect, withError, withQuery, withTokens } from '../redirect-answer.ts';
import { parseMetadata } from './saml-metadata.ts';
import {
  type Assertion,
  mapAttributes,
  ownMetadata,
  requestUrl,
  verifyResponse,
} from './saml-service-provider.ts';
import { limitSessionTo } from './session-end.ts';
import { findSsoProvider, type SsoProviderRow } from './sso-providers.ts';

/**
 * Redirects a user to their company's identity provider.
 * @throws AuthError saml_provider_disabled, sso_provider_not_found (404), validation_failed
 */
export async function startSso(request: AuthRequest, context: AuthContext): Promise<Response> {
  checkEnabled(context);
  await limitNetwork(context, 'sso', request.ip);
  const { body } = request;
  const [id, domain] = [text(body, 'provider_id'), text(body, 'domain')];
  if (id && domain) throw invalid('Only one of provider_id or domain supported');
  if (!id && !domain) throw invalid('A provider_id or domain needs to be provided');
  if (id && !isUuid(id)) throw invalid('provider_id must be an UUID');
  const provider = await findSsoProvider(context.database, id ? { id } : { domain });
  if (!provider) {
    const message = id ? 'No such SSO provider' : 'No SSO provider assigned for this domain';
    throw new AuthError(404, 'sso_provider_not_found', message);
  }
  if (provider.disabled) {
    throw new AuthError(404, 'sso_provider_disabled', 'SSO Provider is currently disabled');
  }
  const pkce = readPkce(body);
  const sent = { id: `_${randomUUID()}`, relayState: randomUUID() };
  await context.database.transaction(async (tx) => {
    const flow = await startFlow(tx, context, {
      providerType: `sso:${provider.id}`,
      method: 'sso/saml',
      pkce,
      referrer: request.redirectTo,
    });
    await tx.query(
      `insert into auth.saml_relay_states
         (id, sso_provider_id, request_id, redirect_to, flow_state_id, created_at, updated_at)
       values ($1::uuid, $2::uuid, $3, $4, $5::uuid, $6::timestamptz, $6::timestamptz)`,
      [sent.relayState, provider.id, sent.id, request.redirectTo, flow, at(context)],
    );
  });
  const identityProvider = await parseMetadata(provider.metadata_xml);
  const url = await requestUrl(context, { ...identityProvider, nameIdFormat: provider.name_id_format }, sent);
  return flag(body, 'skip_http_redirect') ? Response.json({ url }) : redirect(303, url);
}

/** Our metadata as a service provider. @throws AuthError saml_provider_disabled */
export async function samlMetadata(request: AuthRequest, context: AuthContext): Promise<Response> {
  checkEnabled(context);
  const isDownload = request.url.searchParams.get('download') === 'true';
  return new Response(await ownMetadata(context), {
    headers: {
      'content-type': 'application/xml',
      'cache-control': 'public, max-age=600',
      ...(isDownload ? { 'content-disposition': 'attachment; filename="metadata.xml"' } : {}),
    },
  });
}

/** Handles an identity provider's response. Always redirects: to the requested URL, or to the site with the error. */
export async function consumeAssertion(request: AuthRequest, context: AuthContext): Promise<Response> {
  try {
    checkEnabled(context);
    await limitNetwork(context, 'sso', request.ip);
    return redirect(302, await enter(request, context));
  } catch (error) {
    const authError = asAuthError(error);
    if (authError !== error) context.onError(error);
    return redirect(303, withError(context.settings.siteUrl, authError, false));
  }
}

// Anyone may send a response, and it is parsed before its signature is known: the cost grows with the square of its tags. A user
// in hundreds of groups still fits.
const maxXmlLength = 256 * 1024;
const maxResponseLength = 450_000;
const maxTags = 2000;

interface RelayState {
  sso_provider_id: string;
  request_id: string;
  redirect_to: string | null;
  flow_state_id: string | null;
  created_at: string;
}

async function enter(request: AuthRequest, context: AuthContext): Promise<string> {
  const [state, response] = [
    text(request.body, 'RelayState'),
    text(request.body, 'SAMLResponse', maxResponseLength),
  ];
  const relayState = isUuid(state) ? await takeRelayState(context, state) : null;
  if (!relayState && state !== '' && !URL.canParse(state)) {
    throw invalid('SAML RelayState is not a valid UUID or URL');
  }
  if (!response) throw invalid('SAMLResponse is missing');
  if (!/^[A-Za-z0-9+/=\s]+$/.test(response)) throw invalid('SAMLResponse is not a valid Base64 string');
  const xml = Buffer.from(response, 'base64').toString('utf8');
  if (xml.length > maxXmlLength || xml.split('<').length > maxTags) {
    throw invalid('SAMLResponse is too large');
  }
  const provider = relayState
    ? await findSsoProvider(context.database, { id: relayState.sso_provider_id })
    : await findSsoProvider(context.database, { entityId: claimedIssuer(xml) });
  if (!provider) {
    throw new AuthError(
      404,
      'saml_idp_not_found',
      'A SAML connection has not been established with this Identity Provider',
    );
  }
  if (provider.disabled) {
    const message = 'SSO Provider assigned for this domain is currently disabled';
    throw new AuthError(404, 'sso_provider_disabled', message);
  }
  const identityProvider = await parseMetadata(provider.metadata_xml);
  const requestId = relayState?.request_id ?? null;
  const assertion = await verifyResponse(context, identityProvider, response, requestId);
  const profile = profileOf(assertion, provider);
  const redirectTo = relayState ? (relayState.redirect_to ?? '') : state;
  const place = isRedirectAllowed(redirectTo, context.settings) ? redirectTo : context.settings.siteUrl;

  return inTransaction(context, async (tx) => {
    await acceptOnce(tx, provider, assertion);
    const user = await accountOf(tx, context, profile, { ...request, redirectTo: place });
    if (user instanceof LateRefusal) return user;
    const flow = relayState?.flow_state_id ? await findFlow(tx, { id: relayState.flow_state_id }) : null;
    const sessionEnd = assertion.sessionEnd?.toISOString();
    if (flow?.code_challenge) {
      const code = await issueAuthCode(tx, context, flow.id, { userId: user.id });
      await tx.query('update auth.flow_state set client_state = $2::jsonb where id = $1::uuid', [
        flow.id,
        { sessionEnd },
      ]);
      return withQuery(place, { code });
    }
    const tokens = await startSession(tx, context, {
      user,
      method: 'sso/saml',
      provider: provider.id,
      request,
    });
    await limitSessionTo(tx, tokens, sessionEnd);
    if (flow) await endFlow(tx, flow.id);
    return withTokens(place, tokens);
  });
}

/** Takes a relay state out of the database: it is valid for one response, valid or not. */
async function takeRelayState(context: AuthContext, id: string): Promise<RelayState> {
  const { rows } = await context.database.query<RelayState>(
    `delete from auth.saml_relay_states where id = $1::uuid
     returning sso_provider_id, request_id, redirect_to, flow_state_id, created_at`,
    [id],
  );
  const [state] = rows;
  if (!state) {
    const message = 'SAML RelayState does not exist, try logging in again?';
    throw new AuthError(404, 'saml_relay_state_not_found', message);
  }
  const age = (context.now().getTime() - new Date(state.created_at).getTime()) / 1000;
  if (age >= context.settings.saml.relayStateLifetime) {
    const message = 'SAML RelayState has expired. Try logging in again?';
    throw new AuthError(422, 'saml_relay_state_expired', message);
  }
  return state;
}

/** The issuer that an unsolicited response claims: enough to find the certificates to check it with. */
function claimedIssuer(xml: string): string {
  const issuer = /<(?:[\w-]+:)?Issuer\b[^<>]*>([^<]*)</.exec(xml)?.[1]?.trim();
  if (!issuer) throw invalid('SAMLResponse is not a valid XML SAML assertion');
  return issuer;
}

async function acceptOnce(tx: Session, provider: SsoProviderRow, assertion: Assertion): Promise<void> {
  const { rowCount } = await tx.query(
    `insert into auth.saml_assertions_seen (assertion_id, expires_at) values ($1, $2::timestamptz)
     on conflict do nothing`,
    [`${provider.id}:${assertion.id}`, assertion.expiresAt.toISOString()],
  );
  if (rowCount === 0) throw invalid('SAML Assertion is not valid: it has been used before');
}

function profileOf(assertion: Assertion, provider: SsoProviderRow): Profile {
  if (!assertion.userId) {
    throw new AuthError(
      400,
      'saml_assertion_no_user_id',
      'SAML Assertion did not contain a persistent Subject Identifier attribute or Subject NameID uniquely identifying this user',
    );
  }
  const mapped = mapAttributes(assertion, provider.attribute_mapping ?? {});
  const mappedEmail = typeof mapped.email === 'string' ? mapped.email : null;
  const email = (mappedEmail || assertion.email)?.trim().toLowerCase();
  if (!email) {
    const message = 'SAML Assertion does not contain an email address';
    throw new AuthError(400, 'saml_assertion_no_email', message);
  }
  const { email: _, ...claims } = mapped;
  return {
    provider: `sso:${provider.id}`,
    subject: assertion.userId,
    email,
    isEmailVerified: true,
    isEmailOptional: false,
    data: {
      iss: provider.entity_id,
      sub: assertion.userId,
      email,
      email_verified: true,
      phone_verified: false,
      ...(Object.keys(claims).length > 0 ? { custom_claims: claims } : {}),
    },
  };
}

function checkEnabled({ settings }: AuthContext): void {
  if (!settings.saml.isEnabled) {
    throw new AuthError(404, 'saml_provider_disabled', 'SAML 2.0 is disabled');
  }
}
