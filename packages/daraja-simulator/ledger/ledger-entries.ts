// Ledger entries: one per event, append-only. Times are epoch milliseconds.
import type { FaultTarget } from '../faults/faults.ts';
import type { ResultCode } from '../requests/outcomes.ts';
import type { PushRequest } from '../requests/push-request.ts';

export type PushAccepted = PushRequest & {
  kind: 'push accepted';
  at: number;
  checkoutRequestId: string;
  merchantRequestId: string;
};

export type PushRefused = {
  kind: 'push refused';
  at: number;
  status: number;
  errorCode: string;
  errorMessage: string;
  phone: string;
  amount: string;
  accountReference: string;
};

export type PlannedCallback = {
  /** 1, 2, … within its prompt. */
  ordinal: number;
  dueAt: number;
  /** The JSON exactly as it is sent. */
  body: string;
  /** True for a callback that is never sent. */
  isDropped: boolean;
};

export type PromptDecided = {
  kind: 'prompt decided';
  at: number;
  checkoutRequestId: string;
  resultCode: ResultCode;
  decidedBy: 'script' | 'person' | 'timeout';
  /** Set exactly when money moved. */
  receipt: string | null;
  /** Whole shillings. */
  moneyMoved: number;
  /** Time of the success that follows this failure. */
  lateSuccessAt: number | null;
  callbacks: PlannedCallback[];
};

export type CallbackDelivered = {
  kind: 'callback delivered';
  at: number;
  checkoutRequestId: string;
  ordinal: number;
  /** HTTP status of the shop's response; null without a response. */
  status: number | null;
  error: string | null;
};

type ClockAdvanced = { kind: 'clock advanced'; byMs: number };

/** The shop's URLs for validation and confirmation; the newest entry applies. */
export type UrlsRegistered = {
  kind: 'urls registered';
  at: number;
  shortcode: string;
  /** Outcome of a payment when the validation does not answer. */
  responseType: 'Completed' | 'Cancelled';
  confirmationUrl: string;
  validationUrl: string;
};

export type StatementRegistered = {
  kind: 'statement registered';
  at: number;
  shortcode: string;
  nominatedNumber: string;
  callbackUrl: string;
};

/** A payment to the till or paybill without a prompt. */
export type PaymentMade = {
  kind: 'payment made';
  at: number;
  receipt: string;
  /** 254 and nine digits. */
  phone: string;
  payerName: string;
  method: 'till' | 'paybill';
  number: string;
  /** Whole shillings. */
  amount: number;
  /** The account that was typed; empty for a till. */
  reference: string;
};

/** The shop's validation, or its missing response, declined a payment without a prompt: no money moved. */
export type PaymentDeclined = {
  kind: 'payment declined';
  at: number;
  phone: string;
  number: string;
  amount: number;
  reference: string;
  resultCode: string;
};

/** A payment that was reversed without a request of the shop, such as in M-PESA's portal. */
type PaymentReversed = {
  kind: 'payment reversed';
  at: number;
  /** Of the payment. */
  receipt: string;
  /** Of the reversal. */
  reversalReceipt: string;
};

/** A line of the statement that belongs to no payment of the ledger. */
export type LineAdded = {
  kind: 'line added';
  at: number;
  /** As it is listed. */
  line: unknown;
};

/** A reversal or a status request that Daraja accepted; its result is sent later. */
export type RequestTaken = {
  kind: 'request taken';
  at: number;
  api: 'reversals' | 'statuses';
  conversationId: string;
  originatorConversationId: string;
  /** Empty when the request names a conversation. */
  receipt: string;
  originalConversationId: string;
  /** Whole shillings; 0 for a status request. */
  amount: number;
  resultUrl: string;
  timeoutUrl: string;
  /** False: the result reports a wrong initiator name or password. */
  isInitiatorRight: boolean;
};

export type RequestDecided = {
  kind: 'request decided';
  at: number;
  conversationId: string;
  resultCode: ResultCode;
  /** M-PESA's receipt of the reversal; null when nothing was reversed. */
  receipt: string | null;
  /** Returned whole shillings. */
  moneyReturned: number;
};

/** A confirmation or a result to send to the shop. */
export type MessagePlanned = {
  kind: 'message planned';
  id: string;
  at: number;
  purpose: 'confirmation' | 'result';
  /** The receipt or the conversation it is about. */
  about: string;
  url: string;
  /** The JSON exactly as it is sent. */
  body: string;
  dueAt: number;
  /** True for a message that is never sent. */
  isDropped: boolean;
};

export type MessageDelivered = {
  kind: 'message delivered';
  at: number;
  id: string;
  status: number | null;
  error: string | null;
};

/** A request other than a push that Daraja rejected. */
export type RequestRefused = {
  kind: 'request refused';
  at: number;
  api: string;
  status: number;
  errorCode: string;
  errorMessage: string;
};

export type MaintenanceSet = {
  kind: 'maintenance set';
  at: number;
  from: number;
  until: number;
  status: 403 | 503;
};

/** Its value is not stored. */
type TokenMade = { kind: 'token made'; at: number; expiresAt: number };

/** An injected fault that took effect. */
export type FaultStruck = {
  kind: 'fault struck';
  at: number;
  target: FaultTarget;
  fault: string;
  /** Counted from 1, since the script was set. */
  occurrence: number;
};

export type LedgerEntry =
  | PushAccepted
  | PushRefused
  | PromptDecided
  | CallbackDelivered
  | ClockAdvanced
  | UrlsRegistered
  | StatementRegistered
  | PaymentMade
  | PaymentDeclined
  | PaymentReversed
  | LineAdded
  | RequestTaken
  | RequestDecided
  | MessagePlanned
  | MessageDelivered
  | RequestRefused
  | MaintenanceSet
  | TokenMade
  | FaultStruck;

const kinds: LedgerEntry['kind'][] = [
  'push accepted',
  'push refused',
  'prompt decided',
  'callback delivered',
  'clock advanced',
  'urls registered',
  'statement registered',
  'payment made',
  'payment declined',
  'request taken',
  'request decided',
  'message planned',
  'message delivered',
  'request refused',
  'maintenance set',
  'token made',
  'fault struck',
];

/** Parses a line of the ledger file; null when it is not an entry. */
export function readEntry(line: string): LedgerEntry | null {
  try {
    const entry = JSON.parse(line) as LedgerEntry | null;
    return entry !== null && kinds.includes(entry.kind) ? entry : null;
  } catch {
    return null;
  }
}
