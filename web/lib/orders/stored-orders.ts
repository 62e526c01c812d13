// Whether this device has stored orders. First visits load only this part.
import { readStored } from '../browser/browser-storage.ts';

/** Storage key of the orders; also the event on `window` after this tab has changed them. */
export const ordersKey = 'jani.orders';

/** Whether any order is stored, without parsing them. */
export function hasOrders(): boolean {
  return (readStored(ordersKey) ?? '').length > '[]'.length;
}
