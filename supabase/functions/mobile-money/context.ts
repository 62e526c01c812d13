// The dependencies of every action of the payment function.
import type { DarajaClient } from './daraja/connection/client.ts';
import type { AccountStore } from './database/accounts.ts';
import type { DatabaseClient } from './database/client.ts';
import type { PaymentStore } from './database/payments.ts';
import type { RefundStore } from './database/refunds.ts';
import type { TillStore } from './database/till.ts';
import type { MobileMoneyEvent } from './settings.ts';

export interface MobileMoneyContext {
  database: DatabaseClient;
  payments: PaymentStore;
  till: TillStore;
  refunds: RefundStore;
  accounts: AccountStore;
  daraja: DarajaClient;
  callbackBaseUrl(): string;
  /** The public form of `callbackBaseUrl`. */
  publicCallbackBaseUrl(): string;
  /** Reports the digest of the settings to the database, once per process: changed settings end a pause of prompts. */
  noteSettings(): Promise<void>;
  /** Fetches our own public URL. */
  fetch: typeof fetch;
  /** Signs callback secrets and the codes of the reachability check. */
  secretKey: string;
  /** See MobileMoneySettings. */
  afterAnswer(work: () => Promise<void>): void | Promise<void>;
  /** Whether a request has a secret key of the project, as `apikey` or as bearer token. */
  hasSecretKey(request: Request): boolean;
  /** The caller's IP address; null if unknown. */
  callerAddress(request: Request): string | null;
  /** Logs an event, redacted. */
  log(event: MobileMoneyEvent): void;
}
