// The payment function's report to staff about its settings and its public URL.
import type { CallbackUrlProblem } from './callback-url.ts';

/** The settings without secrets. */
export interface Setup {
  environment: 'simulator' | 'sandbox' | 'production';
  mode: 'paybill' | 'till';
  shortcode: string;
  till: string | null;
  /** The settings by name. */
  configured: { name: string; isSet: boolean; what: string }[];
  /** Whether M-PESA can send refunds. */
  canReverse: boolean;
  /** The callback URL without its secret. */
  callbackUrl: string;
  callbackUrlProblems: CallbackUrlProblem[];
}

/** The result of calling our own public URL, step by step. */
export interface Reach {
  address: string;
  isReached: boolean;
  steps: { name: string; state: 'ok' | 'failed' | 'not reached'; detail: string }[];
  tookMs: number;
}
