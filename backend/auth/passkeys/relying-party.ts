// Who asks for credentials, as the settings say. What a request says about it is never believed.
import type { AuthSettings } from '../settings.ts';
import type { RelyingParty } from './ceremony.ts';

/** The relying party of a service: as set, else the site people are sent back to. */
export function relyingPartyOf({
  siteUrl,
  passkeys,
}: Pick<AuthSettings, 'siteUrl' | 'passkeys'>): RelyingParty {
  const site = new URL(siteUrl);
  return {
    id: passkeys.relyingPartyId ?? site.hostname,
    name: passkeys.relyingPartyName,
    origins: passkeys.origins ?? [site.origin],
  };
}
