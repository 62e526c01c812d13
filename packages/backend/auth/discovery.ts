// Public information about the service: keys, settings and health.
import type { AuthContext, AuthRequest, Route } from './context.ts';

const providers = [
  'apple',
  'azure',
  'bitbucket',
  'discord',
  'facebook',
  'figma',
  'fly',
  'github',
  'gitlab',
  'google',
  'kakao',
  'keycloak',
  'linkedin',
  'linkedin_oidc',
  'notion',
  'slack',
  'slack_oidc',
  'snapchat',
  'spotify',
  'twitch',
  'twitter',
  'workos',
  'x',
  'zoom',
];

async function jwks(_request: AuthRequest, { accessTokens }: AuthContext): Promise<Response> {
  return Response.json(
    { keys: accessTokens.publicKeys },
    { headers: { 'cache-control': 'public, max-age=600' } },
  );
}

async function openidConfiguration(_request: AuthRequest, context: AuthContext): Promise<Response> {
  const { externalUrl: issuer } = context.settings;
  const algorithms = [...new Set(context.accessTokens.publicKeys.map(({ alg }) => alg))];
  return Response.json(
    {
      issuer,
      jwks_uri: `${issuer}/.well-known/jwks.json`,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      userinfo_endpoint: `${issuer}/user`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: algorithms,
      code_challenge_methods_supported: ['S256', 'plain'],
    },
    { headers: { 'cache-control': 'public, max-age=600' } },
  );
}

async function settings(_request: AuthRequest, { settings }: AuthContext): Promise<Response> {
  const named = [...new Set([...providers, ...Object.keys(settings.external)])];
  return Response.json({
    external: {
      anonymous_users: settings.isAnonymousSignInEnabled,
      ...Object.fromEntries(named.map((name) => [name, Object.hasOwn(settings.external, name)])),
      email: settings.isEmailEnabled,
      phone: settings.isPhoneEnabled,
      web3_solana: settings.web3.solana,
      web3_ethereum: settings.web3.ethereum,
    },
    disable_signup: !settings.isSignupOpen,
    mailer_autoconfirm: settings.autoconfirmsEmail,
    phone_autoconfirm: settings.autoconfirmsPhone,
    sms_provider: settings.smsProvider,
    saml_enabled: settings.saml.isEnabled,
    saml_private_key_next_configured: settings.saml.nextPrivateKey !== null,
    passkeys_enabled: settings.passkeys.isEnabled,
  });
}

async function health(): Promise<Response> {
  return Response.json({
    version: 'v2.196.0',
    name: 'GoTrue',
    description: 'GoTrue is a user registration and authentication API',
  });
}

export const discoveryRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/.well-known/jwks.json', needs: 'nothing', handle: jwks },
  {
    method: 'GET',
    pattern: '/.well-known/openid-configuration',
    needs: 'nothing',
    handle: openidConfiguration,
  },
  { method: 'GET', pattern: '/settings', needs: 'nothing', handle: settings },
  { method: 'GET', pattern: '/health', needs: 'nothing', handle: health },
];
