// Providers that need only a client id and a secret. All others are described in the settings in full.
import type { ExternalProvider } from '../../settings.ts';

type Known = Pick<ExternalProvider, 'issuer' | 'authorizationUrl' | 'tokenUrl' | 'userInfoUrl' | 'scopes'> & {
  /** Lists a user's addresses with `primary` and `verified`, where the profile has none that is verified. */
  emailsUrl?: string;
  /** The callback's method, where the provider prescribes one. */
  responseMode?: 'form_post';
};

export const knownProviders: Readonly<Record<string, Known>> = {
  apple: {
    issuer: 'https://appleid.apple.com',
    scopes: ['openid', 'email', 'name'],
    responseMode: 'form_post',
  },
  azure: {},
  bitbucket: {},
  discord: {
    authorizationUrl: 'https://discord.com/oauth2/authorize',
    tokenUrl: 'https://discord.com/api/oauth2/token',
    userInfoUrl: 'https://discord.com/api/users/@me',
    scopes: ['email', 'identify'],
  },
  facebook: {},
  figma: {},
  fly: {},
  github: {
    authorizationUrl: 'https://github.com/login/oauth/authorize',
    tokenUrl: 'https://github.com/login/oauth/access_token',
    userInfoUrl: 'https://api.github.com/user',
    emailsUrl: 'https://api.github.com/user/emails',
    scopes: ['user:email'],
  },
  gitlab: { issuer: 'https://gitlab.com' },
  google: { issuer: 'https://accounts.google.com' },
  kakao: { issuer: 'https://kauth.kakao.com' },
  keycloak: {},
  linkedin: {},
  linkedin_oidc: { issuer: 'https://www.linkedin.com/oauth' },
  notion: {},
  slack: {},
  slack_oidc: { issuer: 'https://slack.com' },
  snapchat: {},
  spotify: {},
  twitch: { issuer: 'https://id.twitch.tv/oauth2' },
  twitter: {},
  workos: {},
  x: {},
  zoom: {},
};

/**
 * Completes a provider's settings with the known ones.
 * @param name in any case
 * @returns null when it is not configured; `isKnown` says whether the name belongs to a known provider
 */
export function providerNamed(
  name: string,
  external: Readonly<Record<string, ExternalProvider>>,
): { name: string; provider: (ExternalProvider & Known) | null; isKnown: boolean; issuer: string } {
  const lower = name.toLowerCase();
  const configured = Object.hasOwn(external, lower) ? external[lower] : undefined;
  const defaults = Object.hasOwn(knownProviders, lower) ? knownProviders[lower] : undefined;
  return {
    name: lower,
    provider: configured ? { ...defaults, ...configured } : null,
    isKnown: defaults !== undefined,
    issuer: configured?.issuer ?? defaults?.issuer ?? '',
  };
}
