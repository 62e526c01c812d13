// What the forms of an order start with, and what an order comes to: without the checks, which few pages need.
import type { OrderForm } from './order-form.ts';

export const emptyForm: OrderForm = {
  name: '',
  email: '',
  phone: '',
  location: '',
  building: '',
  unit: '',
  notes: '',
  areaId: '',
  mapPoint: '',
};

/** Maximum number of different drinks in an order, as in the database. */
export const maxDrinks = 10;

/** The price of the units of an order, in cents. */
export const subtotalOf = (lines: readonly { price: number; quantity: number }[]): number =>
  lines.reduce((sum, { price, quantity }) => sum + price * quantity, 0);

/** The total of an order, in cents: its drinks and one delivery fee, without the discount. */
export const orderTotal = (
  lines: readonly { price: number; quantity: number }[],
  deliveryFee: number,
  discountCents = 0,
): number => subtotalOf(lines) + deliveryFee - discountCents;
