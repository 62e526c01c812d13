// What can be set on a simulator, and the values it has when nothing is set.

export type QueryLimit = {
  /** Answered queries per shortcode within `perMs`; the next one gets HTTP 429. */
  requests: number;
  perMs: number;
  /** True spreads them as Daraja's sandbox does (burst 1): none closer together than `perMs / requests`. */
  evenly?: boolean;
};

export type SimulatorOptions = {
  /** 0 (default) takes any free port. */
  port?: number;
  host?: string;
  /** A file of JSON lines that survives a kill of this process; without it the ledger lives in memory. */
  ledgerFile?: string;
  consumerKey?: string;
  consumerSecret?: string;
  shortcode?: string;
  passkey?: string;
  /** The merchant's till: PartyB of CustomerBuyGoodsOnline; also payable without a prompt. */
  tillNumber?: string;
  /** Who may reverse payments and ask about them. */
  initiatorName?: string;
  initiatorPassword?: string;
  /** The shop's name in the prompt on the phone. */
  merchantName?: string;
  /** Delay from a push to the decision of a prompt without an open phone page. */
  decisionDelayMs?: number;
  /** From the first 1037 to the late success of numbers ending in 9006. */
  lateSuccessDelayMs?: number;
  /** A query within this time after its push gets the error "invalid CheckoutRequestID". */
  tooEarlyMs?: number;
  queryLimit?: QueryLimit;
  /** Timeout of a prompt on an open phone page. */
  promptTimeoutMs?: number;
  /** A phone page counts as open for this long after its last request. */
  screenOpenMs?: number;
  /** Result 17 for the same paid amount from the same phone within this time; 0 (default) switches the rule off. */
  repeatRuleMs?: number;
  /** True: a push to a phone with an open prompt is taken and fails later (result 1001); false: it is refused at once. */
  locksLate?: boolean;
  /** The only phone that pays, as in Daraja's sandbox: every other one ends with E3008. Null (default): every phone pays. */
  onlyPhone?: string | null;
  /** How long an answer to a callback is waited for. */
  callbackTimeoutMs?: number;
  /** From a payment to its confirmation. */
  confirmationDelayMs?: number;
  /** From a reversal or a status request to its result. */
  resultDelayMs?: number;
  /** Whether payments without a prompt are validated by the shop (M-PESA activates it on request). */
  asksValidation?: boolean;
  /** True: a second registration of addresses is refused, as in production; false replaces them, as in the sandbox. */
  registersUrlsOnce?: boolean;
  /** Lines on a page of the statement. */
  statementPageSize?: number;
  /** Where the time comes from; the control API advances it from there. */
  clock?: { now(): number };
};

export type SimulatorSettings = Required<Omit<SimulatorOptions, 'ledgerFile'>> & {
  ledgerFile: string | null;
};

/** The till, the registered phone and the initiator of a simulator's merchant by default. */
export const defaultMerchant = {
  tillNumber: '5550174',
  nominatedNumber: '254700000174',
  initiatorName: 'shopapi',
  initiatorPassword: 'Pretend123!',
};

/** The credentials a simulator accepts by default: sandbox shortcode and public test passkey of Safaricom's portal. */
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
