// What every action of the payment function works with.
import type { DarajaClient } from './daraja-client.ts';
import type { PaymentStore } from './payment-store.ts';
import type { RefundStore } from './refund-store.ts';
import type { MobileMoneyEvent } from './settings.ts';
import type { TillStore } from './till-store.ts';

export interface MobileMoneyWorld {
  store: PaymentStore;
  till: TillStore;
  refunds: RefundStore;
  daraja: DarajaClient;
  noticeBaseUrl(): string;
  /** What the outside world would call it. */
  publicNoticeBaseUrl(): string;
  /** The way to our own public address. */
  fetch: typeof fetch;
  /** Signs what only we can have written. */
  secretKey: string;
  /** Whether a request carries a secret key of the project, as `apikey` or as bearer token. */
  carriesSecretKey(request: Request): Promise<boolean>;
  /** The IP address that a request comes from; null when it is not known. */
  senderOf(request: Request): Promise<string | null>;
  /** Redacts what it is given. */
  log(event: MobileMoneyEvent): void;
}
