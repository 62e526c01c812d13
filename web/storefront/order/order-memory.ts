// What the order form remembers: in this tab, which order is on its way, so that a reload cannot place it twice; on this
// device, who orders here, so that the next order is typed faster.
import type { OrderForm } from '../../../domain/order-form.ts';
import type { DeviceStorage } from '../../lib/remembered-orders.ts';

export const emptyForm: OrderForm = {
  name: '',
  email: '',
  phone: '',
  location: '',
  building: '',
  unit: '',
  notes: '',
};

const attemptsKey = 'jani.order-attempts';
const formKey = 'jani.order-form';
const detailsKey = 'jani.customer';
const placedFormsKey = 'jani.placed-forms';
const keptAttempts = 5;

interface Attempt {
  content: string;
  key: string;
}

/** The tab's own storage; null on the server and where it is switched off. */
export function tabStorage(): DeviceStorage | null {
  try {
    return typeof window === 'undefined' ? null : window.sessionStorage;
  } catch {
    return null;
  }
}

/**
 * The idempotency key of an order: the same as long as its content is the same and it has not been placed.
 * @param content everything that is sent, as one text
 */
export function orderKey(storage: DeviceStorage | null, content: string, draw = drawKey): string {
  const attempts = readAttempts(storage);
  const earlier = attempts.find((attempt) => attempt.content === content);
  if (earlier) return earlier.key;
  const key = draw();
  write(storage, attemptsKey, [{ content, key }, ...attempts].slice(0, keptAttempts));
  return key;
}

/** The order with this content is placed: the same content again is another order. */
export function forgetOrderKey(storage: DeviceStorage | null, content: string): void {
  write(
    storage,
    attemptsKey,
    readAttempts(storage).filter((attempt) => attempt.content !== content),
  );
}

/** Stores the typed text until the order is placed; null deletes it. */
export function keepForm(storage: DeviceStorage | null, form: OrderForm | null): void {
  write(storage, formKey, form);
}

/** Keeps the form of a placed order in this tab, to fill in another one if that order ends unpaid. */
export function keepPlacedForm(storage: DeviceStorage | null, orderId: string, form: OrderForm): void {
  const others = readPlacedForms(storage).filter((placed) => placed.orderId !== orderId);
  write(storage, placedFormsKey, [{ orderId, form }, ...others].slice(0, keptAttempts));
}

/** Fills in the form with an earlier order's data, if this tab has it. */
export function fillFormFromOrder(storage: DeviceStorage | null, orderId: string): void {
  const placed = readPlacedForms(storage).find((known) => known.orderId === orderId);
  const form = placed && formFrom(placed.form);
  if (form) keepForm(storage, form);
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

/** A random UUID, also on a plain http address, where browsers offer no randomUUID. */
function drawKey(): string {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte, index) => {
    const marked = index === 6 ? (byte & 0x0f) | 0x40 : index === 8 ? (byte & 0x3f) | 0x80 : byte;
    return marked.toString(16).padStart(2, '0');
  }).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

function readAttempts(storage: DeviceStorage | null): Attempt[] {
  const kept = read(storage, attemptsKey);
  return Array.isArray(kept)
    ? kept.filter(
        (attempt): attempt is Attempt =>
          typeof attempt?.content === 'string' && typeof attempt?.key === 'string',
      )
    : [];
}

function readForm(storage: DeviceStorage | null, key: string): OrderForm | null {
  return formFrom(read(storage, key));
}

function readPlacedForms(storage: DeviceStorage | null): { orderId: string; form: unknown }[] {
  const kept = read(storage, placedFormsKey);
  return Array.isArray(kept) ? kept.filter((placed) => typeof placed?.orderId === 'string') : [];
}

function formFrom(kept: unknown): OrderForm | null {
  if (typeof kept !== 'object' || kept === null) return null;
  const typed = Object.entries(emptyForm).map(([field]) => {
    const value = (kept as Record<string, unknown>)[field];
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
    // A full or forbidden storage must not stop an order: it is only not remembered.
  }
}
