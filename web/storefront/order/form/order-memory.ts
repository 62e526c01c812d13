// What the order form stores. In this tab: the idempotency key of the order, so that a reload cannot place it twice, the typed text, and
// the drinks of an order of several. On this device: customer and address, so that the next order is typed faster.

import type { DeviceStorage } from '../../../lib/browser/browser-storage.ts';
import { emptyForm } from '../../../lib/orders/order-contents.ts';
import type { OrderForm } from '../../../lib/orders/order-form.ts';
import { type OrderLine, readLines } from '../lines/order-lines.ts';

const attemptsKey = 'jani.order-attempts';
const formKey = 'jani.order-form';
const drinksKey = 'jani.order-drinks';
const detailsKey = 'jani.customer';
const placedFormsKey = 'jani.placed-forms';
const discountKey = 'jani.order-discount';
const maxAttempts = 5;

interface Attempt {
  content: string;
  key: string;
}

/**
 * The idempotency key of an order: unchanged while its content is the same and it has not been placed.
 * @param content everything that is sent, as one text
 */
export function orderKey(
  storage: DeviceStorage | null,
  content: string,
  draw: () => string = () => crypto.randomUUID(),
): string {
  const attempts = readAttempts(storage);
  const earlier = attempts.find((attempt) => attempt.content === content);
  if (earlier) return earlier.key;
  const key = draw();
  write(storage, attemptsKey, [{ content, key }, ...attempts].slice(0, maxAttempts));
  return key;
}

/** Call once the order with this content is placed: the same content is then a new order. */
export function forgetOrderKey(storage: DeviceStorage | null, content: string): void {
  write(
    storage,
    attemptsKey,
    readAttempts(storage).filter((attempt) => attempt.content !== content),
  );
}

/** Stores the typed text until the order is placed; null deletes it. */
export function storeForm(storage: DeviceStorage | null, form: OrderForm | null): void {
  write(storage, formKey, form);
}

export interface StoredDrinks {
  /** In the order in which they were chosen. */
  lines: OrderLine[];
  /** Names of drinks that were to be ordered again and cannot be. */
  missing: string[];
}

/** Stores the drinks of an order of several until it is placed; null deletes them. */
export function storeDrinks(storage: DeviceStorage | null, drinks: StoredDrinks | null): void {
  write(storage, drinksKey, drinks);
}

/** The drinks stored in this tab; none for an order of one drink. */
export function storedDrinks(storage: DeviceStorage | null): StoredDrinks {
  const { lines, missing } = (read(storage, drinksKey) ?? {}) as { lines?: unknown; missing?: unknown };
  return {
    lines: readLines(lines),
    missing: Array.isArray(missing) ? missing.filter((name) => typeof name === 'string') : [],
  };
}

/** Stores the form of a placed order in this tab, to fill in another one if that order ends unpaid. */
export function storePlacedForm(storage: DeviceStorage | null, orderId: string, form: OrderForm): void {
  const others = readPlacedForms(storage).filter((placed) => placed.orderId !== orderId);
  write(storage, placedFormsKey, [{ orderId, form }, ...others].slice(0, maxAttempts));
}

/** Stores the discount code of the form, with its discount once it is known. '' for none: that of a link is over, too. */
export function storeDiscount(
  storage: DeviceStorage | null,
  discount: { code: string; terms?: unknown },
): void {
  write(storage, discountKey, discount);
}

/** The discount code stored in this tab; null if the form has had none. */
export function storedDiscount(storage: DeviceStorage | null): { code: string; terms: unknown } | null {
  const { code, terms } = (read(storage, discountKey) ?? {}) as { code?: unknown; terms?: unknown };
  return typeof code === 'string' ? { code, terms } : null;
}

/** Fills in the form with an earlier order's data, if this tab has it, without a discount code. */
export function fillFormFromOrder(storage: DeviceStorage | null, orderId: string): void {
  storeDiscount(storage, { code: '' });
  const placed = readPlacedForms(storage).find((known) => known.orderId === orderId);
  const form = placed && formFrom(placed.form);
  if (form) storeForm(storage, form);
}

/** The initial values: text typed in this tab, else the device's last customer, else empty. */
export function startingForm(tab: DeviceStorage | null, device: DeviceStorage | null): OrderForm {
  return readForm(tab, formKey) ?? readForm(device, detailsKey) ?? emptyForm;
}

/** Whether the device has a stored customer. */
export function knowsCustomer(device: DeviceStorage | null): boolean {
  return readForm(device, detailsKey) !== null;
}

/** Stores the customer and address, with consent. */
export function rememberCustomer(device: DeviceStorage | null, form: OrderForm): void {
  write(device, detailsKey, form);
}

/** Deletes the stored customer; text typed in this tab stays. */
export function forgetDetails(device: DeviceStorage | null): void {
  write(device, detailsKey, null);
}

export function forgetCustomer(tab: DeviceStorage | null, device: DeviceStorage | null): void {
  write(device, detailsKey, null);
  write(tab, formKey, null);
  write(tab, attemptsKey, null);
  write(tab, placedFormsKey, null);
}

function readAttempts(storage: DeviceStorage | null): Attempt[] {
  const stored = read(storage, attemptsKey);
  return Array.isArray(stored)
    ? stored.filter(
        (attempt): attempt is Attempt =>
          typeof attempt?.content === 'string' && typeof attempt?.key === 'string',
      )
    : [];
}

function readForm(storage: DeviceStorage | null, key: string): OrderForm | null {
  return formFrom(read(storage, key));
}

function readPlacedForms(storage: DeviceStorage | null): { orderId: string; form: unknown }[] {
  const stored = read(storage, placedFormsKey);
  return Array.isArray(stored) ? stored.filter((placed) => typeof placed?.orderId === 'string') : [];
}

function formFrom(stored: unknown): OrderForm | null {
  if (typeof stored !== 'object' || stored === null) return null;
  const typed = Object.entries(emptyForm).map(([field]) => {
    const value = (stored as Record<string, unknown>)[field];
    return [field, typeof value === 'string' ? value : ''];
  });
  return { ...emptyForm, ...Object.fromEntries(typed) };
}

function read(storage: DeviceStorage | null, key: string): unknown {
  try {
    return JSON.parse(storage?.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}

function write(storage: DeviceStorage | null, key: string, value: unknown): void {
  try {
    if (value === null) storage?.removeItem(key);
    else storage?.setItem(key, JSON.stringify(value));
  } catch {
    // Full or disabled storage must not prevent an order: the order is then not stored.
  }
}
