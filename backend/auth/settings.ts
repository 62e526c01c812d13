// Every switch of the auth service and what it is when nobody sets it (the defaults of GoTrue where it has them).

/** What a password must have beside its length. Each entry is a set of characters, one of which must occur. */
export interface PasswordRules {
  /** Characters. */
  minimumLength: number;
  requiredCharacters: readonly string[];
  /** Passwords from lists of common ones, their variations and predictable ones are refused. */
  refusesCommon: boolean;
  /** Words that make no password, alone or together, such as the name of the site. Used with `refusesCommon`. */
  siteWords: readonly string[];
  /** The current password must come along when a password is changed. */
  needsCurrentPassword: boolean;
  /** A password change needs a session younger than 24 hours or a nonce from GET /reauthenticate. */
  needsReauthentication: boolean;
}

/** The cost of argon2id. Tests make it small. */
export interface PasswordHashCost {
  /** KiB. */
  memoryCost: number;
  timeCost: number;
  parallelism: number;
}

/** An OpenID Connect or OAuth 2.0 provider that people sign in with. */
export interface ExternalProvider {
  clientId: string;
  secret?: string;
  /** Further client ids that an id_token may be meant for (phone apps). */
  furtherClientIds?: readonly string[];
  /** The OpenID issuer; everything else is discovered from it. */
  issuer?: string;
  /** Where it has no discovery document. */
  authorizationUrl?: string;
  tokenUrl?: string;
  userInfoUrl?: string;
  jwksUrl?: string;
  /** Requested always; the request may add to them. */
  scopes?: readonly string[];
  /** Accept id tokens without a nonce check. */
  skipsNonceCheck?: boolean;
  /** Accept people whose provider tells no mail address. */
  isEmailOptional?: boolean;
  /** The provider may be reached by plain http and at private addresses. For providers in the same network, and for tests. */
  allowsInsecureRequests?: boolean;
}

/** How often something may happen within a window. */
export interface Limit {
  /** Per network: for one IPv4 address or IPv6 /64. A /56 has twice as much, a /48 and an IPv4 /24 eight times. */
  count: number;
  /** Seconds. */
  window: number;
}

export interface AuthSettings {
  /** Where the service is reached from outside, with `/auth/v1`: the issuer of access tokens. */
  externalUrl: string;
  /** The application people are sent back to when they name no other place. */
  siteUrl: string;
  /** Globs of further places they may be sent to (`*` stops at `.` and `/`, `**` does not). */
  redirectAllowList: readonly string[];

  isSignupOpen: boolean;
  isAnonymousSignInEnabled: boolean;
  isEmailEnabled: boolean;
  isPhoneEnabled: boolean;
  /** New mail addresses count as confirmed. */
  autoconfirmsEmail: boolean;
  autoconfirmsPhone: boolean;
  /** A change of mail address must be confirmed by the old address too. */
  isEmailChangeSecure: boolean;
  isManualLinkingEnabled: boolean;

  /** Seconds an access token lives. */
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
  /** Seconds between two mails or texts of a kind to the same person. */
  emailResendGap: number;
  smsResendGap: number;
  /** Seconds a PKCE code and the way to it live. */
  authCodeLifetime: number;
  flowLifetime: number;
  smsProvider: string;
  /** Phones (digits) with codes that never change and are never sent; until when. */
  testPhones: Readonly<Record<string, string>>;
  testPhonesUntil: Date | null;

  /**
   * One-time codes to unknown addresses are answered as if they had been sent. Null: while sign-up is closed; where
   * everybody may sign up, the documented refusal is given.
   */
  hidesUnknownAddresses: boolean | null;
  /** Milliseconds that calls take at least which do more work for an address that is known. */
  shortestAnswer: number;

  password: PasswordRules;
  passwordHashCost: PasswordHashCost;

  /** Seconds in which a refresh token that was used may be used again. */
  refreshReuseInterval: number;
  /** A refresh token that is used again later ends its session. */
  endsStolenSessions: boolean;
  /** Seconds a session may last at most; null: without end. */
  sessionTimeBox: number | null;
  /** Seconds without a refresh after which a session is over; null: never. */
  sessionInactivity: number | null;
  /** Signing in ends a person's other sessions. */
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
    /** The relying party: a domain, a name, and the origins its pages have. Null: taken from `siteUrl`. */
    relyingPartyId: string | null;
    relyingPartyName: string;
    origins: readonly string[] | null;
    /** Seconds. */
    challengeLifetime: number;
  };
  web3: {
    solana: boolean;
    ethereum: boolean;
    /** Seconds a message may be older than its signature is received. */
    maximumAge: number;
  };
  external: Readonly<Record<string, ExternalProvider>>;
  saml: {
    isEnabled: boolean;
    /** PEM, PKCS #8; null: one is not given, requests are not signed. */
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
     * Sign-in e-mails to one address that keep only the cooldown between each other. Later ones in the window wait for half the
     * lifetime of a link, so that the last one is always valid.
     */
    emailsSent: Limit;
    /** Texts to one phone that one network requests. */
    textsSent: Limit;
    /** Per network, over all accounts; tokens that exist count per session instead. */
    tokenRefresh: Limit;
    signIn: Limit;
    signUp: Limit;
    otp: Limit;
    verify: Limit;
    anonymous: Limit;
    /** Sign-ins at another party: SAML, OpenID Connect, OAuth. */
    sso: Limit;
    web3: Limit;
    passkey: Limit;
    /** Per account and network; for a changed password, per session. */
    wrongPassword: Limit;
    /** Typed codes per e-mail address or phone and network, whichever code was sent. Links are not limited by it. */
    wrongCode: Limit;
    /** Typed codes per e-mail address or phone, from all networks together. */
    wrongCodeOverall: Limit;
    /** Answers to challenges for a second factor, per session. */
    factorVerify: Limit;
    /** Codes of a second factor, per factor; apart for sessions that began with a link or code that was sent. */
    factorGuess: Limit;
  };
}

/** Settings as given: each part may be left out. */
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

/** The defaults, all but the two addresses. */
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
    // With six digits and a new code every minute, fifty guesses a day find one in a lifetime. Set it with otpLength.
    wrongCodeOverall: { count: 50, window: 86_400 },
    factorVerify: { count: 15, window: 60 },
    // Three of a million codes of an app are right at any time: with this many guesses a day, someone who has the password gets in
    // once in eighteen years.
    factorGuess: { count: 50, window: 86_400 },
  },
};

/** Fills in what was not given; parts such as `mfa` are filled in one level deep. */
export function completeSettings(given: GivenAuthSettings): AuthSettings {
  const complete: Record<string, unknown> = { ...defaultAuthSettings };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const byDefault = complete[name];
    const isPart = isPlain(byDefault) && isPlain(value);
    complete[name] = isPart ? { ...byDefault, ...value } : value;
  }
  return complete as unknown as AuthSettings;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
