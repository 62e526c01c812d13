// What every action of the payment function works with.
import type { DarajaClient } from './daraja-client.ts';
import type { PaymentStore } from './payment-store.ts';
import type { MobileMoneyEvent } from './settings.ts';

export interface MobileMoneyWorld {
  store: PaymentStore;
  daraja: DarajaClient;
  noticeBaseUrl(): string;
  /** Redacts what it is given. */
  log(event: MobileMoneyEvent): void;
}
