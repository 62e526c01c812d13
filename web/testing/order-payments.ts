// Steps of component tests in the part "Payments" of an order's dialog.
import { within } from '@testing-library/dom';
import { type Order, readOrder } from '../../e2e/placed-orders.ts';
import { dialogOf, openScreen, shop } from './staff-screens.tsx';

/** Opens an order on a phone. */
export async function openPayments(order: Order) {
  const opened = await openScreen(`/admin/orders/${order.id}`, { on: 'phone' });
  const dialog = await dialogOf(order);
  const payments = within(dialog.getByRole('region', { name: 'Payments' }));
  const press = async (name: string | RegExp) => opened.press(await payments.findByRole('button', { name }));
  /** Replaces the text of a field. */
  const fill = async (label: RegExp, text: string) =>
    opened.fill(await payments.findByLabelText(label), text);
  const choose = async (name: string) => opened.user.click(await payments.findByRole('radio', { name }));
  return { ...opened, dialog, payments, press, fill, choose };
}

export const paymentStatusOf = async ({ id }: Order) => (await readOrder(shop, id)).payment_status;
