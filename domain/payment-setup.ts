// What the payment function tells staff of its settings, and of the way to it from outside.
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
  /** Where M-PESA is to tell us of payments, without the secret at its end. */
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
