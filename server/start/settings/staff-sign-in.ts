// Sign-in of staff: the shop's overrides of the auth service's defaults.
import { type GivenAuthSettings, overrideSettings } from '@jani-juice/backend/settings';
import type { Config } from './config.ts';

/** Settings of the auth service for a shop in which only staff have accounts. `AUTH_SETTINGS` replaces single ones. */
export function staffSignIn({
  publicUrl,
  messages,
  backend,
}: Pick<Config, 'publicUrl' | 'messages' | 'backend'>): Partial<GivenAuthSettings> {
  const settings: Partial<GivenAuthSettings> = {
    isPhoneEnabled: false,
    passkeys: { relyingPartyName: 'Jani Juice' },
    sessionTimeBox: 30 * 24 * 60 * 60,
    sessionInactivity: 7 * 24 * 60 * 60,
    // Eight digits cannot be guessed within the limits per network, so wrong codes need not block the right one.
    otpLength: 8,
    limits: { wrongCodeOverall: { count: 2000, window: 86_400 } },
    password: {
      minimumLength: 8,
      refusesCommon: true,
      siteWords: ['Jani Juice', 'khat', 'miraa', 'admin', 'staff', new URL(publicUrl).hostname],
      needsCurrentPassword: true,
      // A code by e-mail for a session that is older than a day; without a mail server no one would get it.
      needsReauthentication: messages.smtpUrl !== null,
    },
  };
  return overrideSettings(settings, backend.authSettings);
}
