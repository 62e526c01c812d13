// What the ledger writes down: one entry per thing that happened, never changed afterwards. Times are epoch ms.
import type { ResultCode } from './outcomes.ts';
import type { PushRequest } from './push-request.ts';

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
  /** True for a callback that is lost on the way. */
  isDropped: boolean;
};

export type PromptDecided = {
  kind: 'prompt decided';
  at: number;
  checkoutRequestId: string;
  resultCode: ResultCode;
  decidedBy: 'script' | 'person' | 'nobody';
  /** Set exactly when money moved. */
  receipt: string | null;
  /** Whole shillings. */
  moneyMoved: number;
  /** When a success follows this failure. */
  lateSuccessAt: number | null;
  callbacks: PlannedCallback[];
};

export type CallbackDelivered = {
  kind: 'callback delivered';
  at: number;
  checkoutRequestId: string;
  ordinal: number;
  /** The HTTP status the shop answered, or null when it gave no answer. */
  status: number | null;
  error: string | null;
};

export type ClockAdvanced = { kind: 'clock advanced'; byMs: number };

export type LedgerEntry = PushAccepted | PushRefused | PromptDecided | CallbackDelivered | ClockAdvanced;

const kinds: LedgerEntry['kind'][] = [
  'push accepted',
  'push refused',
  'prompt decided',
  'callback delivered',
  'clock advanced',
];

/** One line of the ledger file; null when it is not one that this simulator wrote. */
export function readEntry(line: string): LedgerEntry | null {
  try {
    const entry = JSON.parse(line) as LedgerEntry | null;
    return entry !== null && kinds.includes(entry.kind) ? entry : null;
  } catch {
    return null;
  }
}
