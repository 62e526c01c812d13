// Settings of the auth service and their defaults (GoTrue's where it has them).

/** Requirements of a password besides its length. Each entry is a set of characters, one of which must occur. */
export interface PasswordRules {
  /** Characters. */
  minimumLength: number;
  requiredCharacters: readonly string[];
  /** Refuses common passwords, their variations and predictable ones. */
  refusesCommon: boolean;
  /** Words that must not make up a password, such as the name of the site. Used with `refusesCommon`. */
  siteWords: readonly string[];
  /** A password change requires the current password. */
  needsCurrentPassword: boolean;
  /** A password change requires a session younger than 24 hours or a nonce from GET /reauthenticate. */
  needsReauthentication: boolean;
}

/** The cost of argon2id. Tests make it small. */
export interface PasswordHashCost {
  /** KiB. */
  memoryCost: number;
  timeCost: number;
  parallelism: number;
}

/** An OpenID Connect or OAuth 2.0 provider. */
export interface ExternalProvider {
  clientId: string;
  secret?: string;
  /** Further accepted client ids of an id_token (phone apps). */
  furtherClientIds?: readonly string[];
  /** The OpenID issuer, for discovery. */
  issuer?: string;
  /** Endpoints of a provider without discovery. */
  authorizationUrl?: string;
  tokenUrl?: string;
  userInfoUrl?: string;
  jwksUrl?: string;
  /** Always requested; a request may add to them. */
  scopes?: readonly string[];
  /** Accepts id tokens without a nonce check. */
  skipsNonceCheck?: boolean;
  /** Accepts users without an email address. */
  isEmailOptional?: boolean;
  /** The provider may be reached by plain http and at private addresses. For providers in the same network, and for tests. */
  allowsInsecureRequests?: boolean;
}

/** Maximum number of events per window. */
export interface Limit {
  /** Per network: for one IPv4 address or IPv6 /64. A /56 has twice as much, a /48 and an IPv4 /24 eight times. */
  count: number;
  /** Seconds. */
  window: number;
}

export interface AuthSettings {
  /** Public URL of the service, with `/auth/v1`: the issuer of access tokens. */
  externalUrl: string;
  /** Redirect URL when a request names no other. */
  siteUrl: string;
  /** Globs of further redirect URLs (`*` stops at `.` and `/`, `**` does not). */
  redirectAllowList: readonly string[];

  isSignupOpen: boolean;
  isAnonymousSignInEnabled: boolean;
  isEmailEnabled: boolean;
  isPhoneEnabled: boolean;
  /** New email addresses count as confirmed. */
  autoconfirmsEmail: boolean;
  autoconfirmsPhone: boolean;
  /** The old address must confirm a change of email address too. */
  isEmailChangeSecure: boolean;
  isManualLinkingEnabled: boolean;

  /** Lifetime of an access token, in seconds. */
  jwtLifetime: number;
  audience: string;
  adminRoles: readonly string[];

  /** Digits of a one-time code. */
  otpLength: number;
  /** Seconds. */
  emailOtpLifetime: number;
  smsOtpLifetime: number;
  /** Wrong answers after which a challenge for a second factor is void. */
  otpAttempts: number;
  /** Cooldown in seconds between two messages of a kind to the same recipient. */
  emailResendGap: number;
  smsResendGap: number;
  /** Lifetime of a PKCE code and of its flow, in seconds. */
  authCodeLifetime: number;
  flowLifetime: number;
  smsProvider: string;
  /** Test phones (digits) with fixed codes that are never sent, and their expiry. */
  testPhones: Readonly<Record<string, string>>;
  testPhonesUntil: Date | null;

  /**
   * Answers requests for unknown addresses as if a code had been sent. Null: only while sign-up is closed; with open sign-up,
   * the documented error.
   */
  hidesUnknownAddresses: boolean | null;
  /** Minimum duration in milliseconds of calls that do more work for a known address. */
  shortestAnswer: number;

  password: PasswordRules;
  passwordHashCost: PasswordHashCost;

  /** Seconds in which a used refresh token may be used again. */
  refreshReuseInterval: number;
  /** Later reuse of a refresh token ends its session. */
  endsStolenSessions: boolean;
  /** Maximum lifetime of a session in seconds. Null: unlimited. */
  sessionTimeBox: number | null;
  /** Maximum inactivity of a session in seconds. Null: unlimited. */
  sessionInactivity: number | null;
  /** A sign-in ends the user's other sessions. */
  isSingleSession: boolean;

  mfa: {
    maximumFactors: number;
    /** Seconds. */
    challengeLifetime: number;
    otpLength: number;
    phoneResendGap: number;
    totp: { canEnroll: boolean; canVerify: boolean };
    phone: { canEnroll: boolean; canVerify: boolean };
    webauthn: { canEnroll: boolean; canVerify: boolean };
  };
  passkeys: {
    isEnabled: boolean;
    maximum: number;
    /** The relying party: domain, name, and page origins. Null: from `siteUrl`. */
    relyingPartyId: string | null;
    relyingPartyName: string;
    origins: readonly string[] | null;
    /** Seconds. */
    challengeLifetime: number;
  };
  web3: {
    solana: boolean;
    ethereum: boolean;
    /** Maximum age of a message in seconds. */
    maximumAge: number;
  };
  external: Readonly<Record<string, ExternalProvider>>;
  saml: {
    isEnabled: boolean;
    /** PEM, PKCS #8. Null: requests are not signed. */
    privateKey: string | null;
    nextPrivateKey: string | null;
    externalUrl: string | null;
    allowsEncryptedAssertions: boolean;
    /** Metadata may be fetched from private addresses. For identity providers in the same network, and for tests. */
    allowsPrivateAddresses: boolean;
    /** Seconds. */
    relayStateLifetime: number;
  };

  limits: {
    /**
     * Sign-in emails to one address with only the cooldown in between. Later ones in the window wait for half the lifetime of a
     * link, so that the last one is always valid.
     */
    emailsSent: Limit;
    /** Texts per phone and network. */
    textsSent: Limit;
    /** Per network, over all accounts; existing tokens count per session instead. */
    tokenRefresh: Limit;
    signIn: Limit;
    signUp: Limit;
    otp: Limit;
    verify: Limit;
    anonymous: Limit;
    /** Sign-ins through an external party: SAML, OpenID Connect, OAuth. */
    sso: Limit;
    web3: Limit;
    passkey: Limit;
    /** Per account and network; for a changed password, per session. */
    wrongPassword: Limit;
    /** Typed codes per e-mail address or phone and network, whichever code was sent. Links are not limited by it. */
    wrongCode: Limit;
    /** Typed codes per email address or phone, from all networks. */
    wrongCodeOverall: Limit;
    /** Answers to challenges for a second factor, per session. */
    factorVerify: Limit;
    /** Codes of a second factor, per factor; counted separately for sessions that began with a link or code. */
    factorGuess: Limit;
  };
}

/** Settings as given: all optional but two URLs. */
export type GivenAuthSettings = {
  [Name in keyof AuthSettings]?: AuthSettings[Name] extends
    | readonly unknown[]
    | Date
    | string
    | number
    | boolean
    | null
    ? AuthSettings[Name]
    : Partial<AuthSettings[Name]>;
} & Pick<AuthSettings, 'externalUrl' | 'siteUrl'>;

const perFiveMinutes = (count: number): Limit => ({ count, window: 300 });

/** The defaults of all but the two URLs. */
const defaultAuthSettings: Omit<AuthSettings, 'externalUrl' | 'siteUrl'> = {
  redirectAllowList: [],
  isSignupOpen: false,
  isAnonymousSignInEnabled: false,
  isEmailEnabled: true,
  isPhoneEnabled: true,
  autoconfirmsEmail: false,
  autoconfirmsPhone: false,
  isEmailChangeSecure: true,
  isManualLinkingEnabled: false,
  jwtLifetime: 3600,
  audience: 'authenticated',
  adminRoles: ['service_role', 'supabase_admin'],
  otpLength: 6,
  emailOtpLifetime: 3600,
  smsOtpLifetime: 60,
  otpAttempts: 10,
  emailResendGap: 60,
  smsResendGap: 60,
  authCodeLifetime: 300,
  flowLifetime: 600,
  smsProvider: 'africastalking',
  testPhones: {},
  testPhonesUntil: null,
  hidesUnknownAddresses: null,
  shortestAnswer: 150,
  password: {
    minimumLength: 6,
    requiredCharacters: [],
    refusesCommon: false,
    siteWords: [],
    needsCurrentPassword: false,
    needsReauthentication: false,
  },
  // OWASP's password storage cheat sheet: 19 MiB, two passes, one lane.
  passwordHashCost: { memoryCost: 19_456, timeCost: 2, parallelism: 1 },
  refreshReuseInterval: 10,
  endsStolenSessions: true,
  sessionTimeBox: null,
  sessionInactivity: null,
  isSingleSession: false,
  mfa: {
    maximumFactors: 10,
    challengeLifetime: 300,
    otpLength: 6,
    phoneResendGap: 60,
    totp: { canEnroll: true, canVerify: true },
    phone: { canEnroll: true, canVerify: true },
    webauthn: { canEnroll: true, canVerify: true },
  },
  passkeys: {
    isEnabled: true,
    maximum: 10,
    relyingPartyId: null,
    relyingPartyName: 'This site',
    origins: null,
    challengeLifetime: 300,
  },
  web3: { solana: false, ethereum: false, maximumAge: 600 },
  external: {},
  saml: {
    isEnabled: false,
    privateKey: null,
    nextPrivateKey: null,
    externalUrl: null,
    allowsEncryptedAssertions: false,
    allowsPrivateAddresses: false,
    relayStateLifetime: 600,
  },
  limits: {
    emailsSent: { count: 3, window: 86_400 },
    textsSent: { count: 5, window: 3600 },
    tokenRefresh: perFiveMinutes(1800),
    signIn: perFiveMinutes(60),
    signUp: perFiveMinutes(60),
    otp: perFiveMinutes(60),
    verify: perFiveMinutes(60),
    anonymous: { count: 60, window: 3600 },
    sso: perFiveMinutes(60),
    web3: perFiveMinutes(60),
    passkey: perFiveMinutes(60),
    wrongPassword: { count: 10, window: 3600 },
    wrongCode: { count: 10, window: 86_400 },
    // With six digits and a new code every minute, fifty guesses a day find one in about fifty years. Set it with otpLength.
    wrongCodeOverall: { count: 50, window: 86_400 },
    factorVerify: { count: 15, window: 60 },
    // Three of a million codes of an app are valid at any time: with this many guesses a day, someone with the password gets in
    // once in eighteen years.
    factorGuess: { count: 50, window: 86_400 },
  },
};

/** Applies the defaults. */
export function completeSettings(input: GivenAuthSettings): AuthSettings {
  return overrideSettings(defaultAuthSettings, input) as AuthSettings;
}

/**
 * Replaces settings by others. Parts such as `mfa` are merged one level deep.
 * @returns a new object
 */
export function overrideSettings<Settings extends Partial<GivenAuthSettings>>(
  settings: Settings,
  overrides: Partial<GivenAuthSettings>,
): Settings {
  const merged: Record<string, unknown> = { ...settings };
  for (const [name, value] of Object.entries(overrides)) {
    if (value === undefined) continue;
    const replaced = merged[name];
    merged[name] = isPlain(replaced) && isPlain(value) ? { ...replaced, ...value } : value;
  }
  return merged as Settings;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
