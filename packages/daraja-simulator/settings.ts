// The simulator's settings and their defaults.

export type QueryLimit = {
  /** Maximum queries per shortcode within `perMs`; further ones get HTTP 429. */
  requests: number;
  perMs: number;
  /** True: at least `perMs / requests` between two queries (burst 1), as in Daraja's sandbox. Default: false. */
  evenly?: boolean;
};

export type C2bVersion = 'v1' | 'v2';

export type SimulatorOptions = {
  /** Default: 0, any free port. */
  port?: number;
  host?: string;
  /** Ledger file (JSON lines), which survives a kill of the process. Default: in memory only. */
  ledgerFile?: string;
  consumerKey?: string;
  consumerSecret?: string;
  shortcode?: string;
  passkey?: string;
  /** The merchant's till: PartyB of CustomerBuyGoodsOnline, and payable without a prompt. */
  tillNumber?: string;
  /** API user that may reverse payments and query them. */
  initiatorName?: string;
  initiatorPassword?: string;
  /** The shop's name in the prompt on the phone. */
  merchantName?: string;
  /** Delay from a push to the decision of a prompt without an open phone page. */
  decisionDelayMs?: number;
  /** Delay from the first 1037 to the late success of numbers ending in 9006. */
  lateSuccessDelayMs?: number;
  /** A query within this time after its push gets the error "invalid CheckoutRequestID". */
  tooEarlyMs?: number;
  queryLimit?: QueryLimit;
  /** Timeout of a prompt on an open phone page. */
  promptTimeoutMs?: number;
  /** A phone page counts as open for this long after its last request. */
  screenOpenMs?: number;
  /**
   * Result 17 for the same paid amount from the same phone within this time; 0 disables the rule. Default: 0, as scripted phones
   * pay the same amount repeatedly. The phone page applies it for two minutes.
   */
  repeatRuleMs?: number;
  /** The version of C2B that the app has; the other one is not there. Default: v2. */
  c2bVersion?: C2bVersion;
  /** True: a push to a phone with an open prompt is accepted and fails later (result 1001). False: it is refused at once. */
  locksLate?: boolean;
  /** The only phone that can pay, as in Daraja's sandbox; others end with E3008. Default: null, every phone. */
  onlyPhone?: string | null;
  /** Timeout of a callback request. */
  callbackTimeoutMs?: number;
  /** Delay from a payment to its confirmation. */
  confirmationDelayMs?: number;
  /** Delay from a reversal or a status request to its result. */
  resultDelayMs?: number;
  /** Whether the shop validates payments without a prompt (M-PESA activates this on request). */
  asksValidation?: boolean;
  /** True: a second URL registration is refused, as in production. False: it replaces the first, as in the sandbox. */
  registersUrlsOnce?: boolean;
  /** Lines per page of the statement. */
  statementPageSize?: number;
  /** Source of the time; the control API adds its offset to it. */
  clock?: { now(): number };
};

export type SimulatorSettings = Required<Omit<SimulatorOptions, 'ledgerFile'>> & {
  ledgerFile: string | null;
};

/** Default till, registered phone and initiator of the merchant. */
export const defaultMerchant = {
  tillNumber: '5550174',
  nominatedNumber: '254700000174',
  initiatorName: 'shopapi',
  initiatorPassword: 'Pretend123!',
};

/** Default credentials: sandbox shortcode and public test passkey of Safaricom's portal. */
export const defaultCredentials = {
  consumerKey: 'simulator-consumer-key',
  consumerSecret: 'simulator-consumer-secret',
  shortcode: '174379',
  passkey: 'bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919',
};

export function withDefaults(options: SimulatorOptions): SimulatorSettings {
  return {
    port: 0,
    host: '127.0.0.1',
    ledgerFile: null,
    ...defaultCredentials,
    tillNumber: defaultMerchant.tillNumber,
    initiatorName: defaultMerchant.initiatorName,
    initiatorPassword: defaultMerchant.initiatorPassword,
    merchantName: 'JANI JUICE',
    decisionDelayMs: 2_000,
    lateSuccessDelayMs: 20_000,
    tooEarlyMs: 1_000,
    queryLimit: { requests: 5, perMs: 60_000 },
    promptTimeoutMs: 60_000,
    screenOpenMs: 5_000,
    repeatRuleMs: 0,
    c2bVersion: 'v2',
    locksLate: false,
    onlyPhone: null,
    callbackTimeoutMs: 8_000,
    confirmationDelayMs: 1_000,
    resultDelayMs: 2_000,
    asksValidation: true,
    registersUrlsOnce: false,
    statementPageSize: 100,
    clock: Date,
    ...options,
  };
}
