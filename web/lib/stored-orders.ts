// Whether this device remembers orders: all that a first visit loads of it.

/** Under which the orders are stored; also the event on `window` after this tab has changed them. */
export const ordersKey = 'jani.orders';

/** Whether there is any order; cheaper than reading them. */
export function hasOrders(): boolean {
  try {
    return (localStorage.getItem(ordersKey) ?? '').length > '[]'.length;
  } catch {
    return false;
  }
}
