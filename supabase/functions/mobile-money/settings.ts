// Settings of the payment function: its database, its merchant account at M-PESA, and its public URL.

/** The database's table API and the key that may call the payment procedures. */
export interface DatabaseSettings {
  /** Origin of the backend's services without a trailing slash. */
  url: string;
  secretKey: string;
  /** Other secret keys of the project that callers may use. */
  otherSecretKeys?: readonly string[];
  fetch?: typeof fetch;
}

/** The merchant's account at Safaricom's Daraja. */
export interface DarajaSettings {
  /** Origin without a trailing slash: sandbox, production or the simulator. */
  baseUrl: string;
  consumerKey: string;
  consumerSecret: string;
  shortcode: string;
  passkey: string;
  /** The first for a paybill, the second for a till. */
  transactionType: 'CustomerPayBillOnline' | 'CustomerBuyGoodsOnline';
  /** The till of a CustomerBuyGoodsOnline merchant. Default: the shortcode. */
  partyB?: string;
  /** The API operator for reversals and status queries. Default: neither is available. */
  initiator?: {
    name: string;
    password: string;
    /** PEM of the portal's certificate, which encrypts the password. */
    certificate: string;
  };
  /** The phone with which the shortcode is registered at M-PESA (`254…`), required for statements. */
  nominatedNumber?: string;
  /** Request timeout in milliseconds. Default: 20 seconds. */
  timeoutMs?: number;
  /** STK queries that M-PESA allows per minute. Default: 5, the lowest known limit. */
  queriesPerMinute?: number;
  /** Seconds within which M-PESA refuses the same amount from one phone (result 17). Default: 120; 0 with a simulator. */
  sameAmountSeconds?: number;
}

/** @returns the setting, or its default */
export function sameAmountSeconds({ sameAmountSeconds: seconds, baseUrl }: DarajaSettings): number {
  return seconds ?? (baseUrl.includes('.safaricom.') ? 120 : 0);
}

/** A log event without secrets or personal data. */
export interface MobileMoneyEvent {
  level: 'info' | 'warn' | 'error';
  event: string;
  /** Id of the request that caused it. */
  requestId?: string;
  paymentId?: string;
  detail?: string;
}

export interface MobileMoneySettings {
  database: DatabaseSettings;
  daraja: DarajaSettings;
  /**
   * Base URL of M-PESA's callbacks without a trailing slash: `…/functions/v1/mobile-money/notice`. Lower-case. A function
   * if it is known only after the server listens.
   */
  callbackBaseUrl: string | (() => string);
  /** The public form of `callbackBaseUrl`, for the check of the public URL. Default: `callbackBaseUrl`. */
  publicCallbackBaseUrl?: string | (() => string);
  /** Fetches Daraja and our own public URL. Default: the global fetch. */
  fetch?: typeof fetch;
  now?: () => Date;
  /**
   * Runs the settlement of a stored callback after its answer, in the order of these calls. Default: before the answer.
   */
  afterAnswer?: (work: () => Promise<void>) => void | Promise<void>;
  log?: (event: MobileMoneyEvent) => void;
  /** Reads the request id from a header that clients cannot set. Default: no request ids. */
  requestIdOf?: (request: Request) => string | null;
}
