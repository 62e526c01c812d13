// The relying party from the settings, never from a request.
import type { AuthSettings } from '../settings.ts';
import type { RelyingParty } from './ceremony.ts';

/** The relying party: as configured, else from the site's URL. */
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
