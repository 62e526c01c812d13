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
  /** The registration of the addresses for payments without a prompt (C2B), with the version of the API; null without one. */
  c2b: { registeredAt: string; version: 'v1' | 'v2' | null } | null;
  /** Whether M-PESA can send refunds. */
  canReverse: boolean;
  /** The callback URL without its secret. */
  callbackUrl: string;
  callbackUrlProblems: CallbackUrlProblem[];
}

/** The steps of a call, the first one first. `Certificate` only with https. */
export type ReachStep = 'Name' | 'Connection' | 'Certificate' | 'Status' | 'Answer';

/** The result of calling our own public URL, step by step. */
export interface Reach {
  address: string;
  isReached: boolean;
  steps: { name: ReachStep; state: 'ok' | 'failed' | 'not reached'; detail: string }[];
  tookMs: number;
}
