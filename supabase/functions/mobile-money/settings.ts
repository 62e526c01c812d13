// What the payment function must be told: where the database is, which merchant it is at M-PESA, what the world calls it.

/** The database's table API and the key that may call the payment procedures. */
export interface StoreSettings {
  /** Origin of the backend's services, without a slash at the end. */
  url: string;
  secretKey: string;
  /** Other secret keys of the same project, which callers may use. */
  otherSecretKeys?: readonly string[];
  fetch?: typeof fetch;
}

/** The merchant's account at Safaricom's Daraja. */
export interface DarajaSettings {
  /** Origin without a slash at the end: sandbox, production or a stand-in. */
  baseUrl: string;
  consumerKey: string;
  consumerSecret: string;
  shortcode: string;
  passkey: string;
  /** A paybill takes the first, a till the second. */
  transactionType: 'CustomerPayBillOnline' | 'CustomerBuyGoodsOnline';
  /** The till of a CustomerBuyGoodsOnline merchant; absent: the shortcode itself. */
  partyB?: string;
  /** Who may reverse payments and ask about them; absent: nobody can. */
  initiator?: {
    name: string;
    password: string;
    /** PEM of the portal's certificate, by which the password is encrypted. */
    certificate: string;
  };
  /** The phone that the shortcode is registered with at M-PESA (`254…`): what its statement is asked for by. */
  nominatedNumber?: string;
  /** How long an answer is waited for, in milliseconds; default 20 seconds. */
  timeoutMs?: number;
  /** How many questions about prompts M-PESA takes from this merchant; default 5, the least that is known. */
  queriesPerMinute?: number;
}

/** One thing that happened, for the log: no secrets, no personal data. */
export interface MobileMoneyEvent {
  level: 'info' | 'warn' | 'error';
  event: string;
  /** Of the request that caused it. */
  requestId?: string;
  paymentId?: string;
  detail?: string;
}

export interface MobileMoneySettings {
  store: StoreSettings;
  daraja: DarajaSettings;
  /**
   * Where M-PESA reaches us, without a slash at the end: `…/functions/v1/mobile-money/notice`. Lower-case. A function
   * when it is known only once we listen.
   */
  noticeBaseUrl: string | (() => string);
  /** The same as the outside world would call it; default `noticeBaseUrl`. For the check of the public address. */
  publicNoticeBaseUrl?: string | (() => string);
  /** The way to Daraja, and to our own public address; default the global fetch. */
  fetch?: typeof fetch;
  now?: () => Date;
  log?: (event: MobileMoneyEvent) => void;
  /** The id of a request, from a header that only the runtime can have set. Default: requests have none. */
  requestIdOf?: (request: Request) => string | null;
}
