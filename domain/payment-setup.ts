// The payment function's report to staff about its settings and its public URL.
import type { AddressProblem } from './notice-address.ts';

/** The settings, without what is secret in them. */
export interface Setup {
  environment: 'simulator' | 'sandbox' | 'production';
  mode: 'paybill' | 'till';
  shortcode: string;
  till: string | null;
  /** What is set, by what it is called. */
  configured: { name: string; isSet: boolean; what: string }[];
  /** Whether money can be sent back by M-PESA. */
  canReverse: boolean;
  /** The callback URL, without the secret at its end. */
  noticeAddress: string;
  addressProblems: AddressProblem[];
}

/** What came of calling our own public address, step by step as far as it got. */
export interface Reach {
  address: string;
  isReached: boolean;
  steps: { name: string; state: 'ok' | 'failed' | 'not reached'; detail: string }[];
  tookMs: number;
}
