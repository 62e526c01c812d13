// An order that a member of staff is entering: what is typed and chosen, and what it comes to. Stored in the tab until it is placed.
import {
  areaWithId,
  type DeliveryArea,
  feeIn,
  type GuessedArea,
  guessArea,
} from '../../../../domain/deliveries/delivery-area.ts';
import { type DiscountTerms, discountOn } from '../../../../domain/orders/discount.ts';
import { formatPhone, normalisePhone } from '../../../../domain/people/phone.ts';
import type { OrderSource } from '../../../../supabase/types.ts';
import type { DeviceStorage } from '../../../lib/browser/browser-storage.ts';
import { emptyForm, maxDrinks, orderTotal, subtotalOf } from '../../../lib/orders/order-contents.ts';
import { type OrderForm, orderFormOf } from '../../../lib/orders/order-form.ts';

export type EnteredSource = Exclude<OrderSource, 'storefront'>;

export interface Line {
  productId: string;
  name: string;
  quantity: number;
  /** In cents, as it was shown when the drink was chosen. */
  price: number;
}

export interface Draft {
  /** Idempotency key: the same draft is one order, however often it is sent. */
  key: string;
  source: EnteredSource;
  isCollected: boolean;
  form: OrderForm;
  /** What was filled in from an earlier order: another customer's replaces it, unless it was edited. */
  filled: Partial<OrderForm>;
  /** The phone whose customer was filled in, or found to be new. */
  filledFor: string | null;
  lines: readonly Line[];
  /** Of the discount code that is applied; null without one. */
  discount: DiscountTerms | null;
}

/** A drink as it can be ordered now. */
export interface Drink {
  id: string;
  name: string;
  brand: string | null;
  /** In cents. */
  price: number;
  image_url: string | null;
  units_left: number;
}

export interface Address {
  address: string;
  notes: string | null;
}

const emptyDraft = (): Draft => ({
  key: crypto.randomUUID(),
  source: 'call',
  isCollected: false,
  form: emptyForm,
  filled: {},
  filledFor: null,
  lines: [],
  discount: null,
});

/** Whether there is something that would be lost. */
export const isBegun = ({ form, lines }: Draft): boolean =>
  lines.length > 0 || Object.values(form).some((text) => text.trim() !== '');

/** A draft that nothing was entered in begins with the phone of the customer from whose page it was opened. */
export const withPhone = (draft: Draft, phone: string): Draft =>
  isBegun(draft) || normalisePhone(phone) === null
    ? draft
    : { ...draft, form: { ...draft.form, phone: formatPhone(phone) } };

/** A customer in the shop usually takes the order along; a caller has it delivered. */
export const withSource = (draft: Draft, source: EnteredSource): Draft => ({
  ...draft,
  source,
  isCollected: source === 'walk_in',
});

/** @param quantity of this drink in the order; 0 takes it out. At most what is left */
export function withQuantity(
  draft: Draft,
  drink: Pick<Drink, 'id' | 'name' | 'price'>,
  quantity: number,
): Draft {
  const { lines } = draft;
  const isThere = lines.some(({ productId }) => productId === drink.id);
  if (quantity <= 0) return { ...draft, lines: lines.filter(({ productId }) => productId !== drink.id) };
  if (isThere) {
    return {
      ...draft,
      lines: lines.map((line) => (line.productId === drink.id ? { ...line, quantity } : line)),
    };
  }
  return lines.length >= maxDrinks
    ? draft
    : {
        ...draft,
        lines: [...lines, { productId: drink.id, name: drink.name, price: drink.price, quantity }],
      };
}

/** Drinks by their ids as they can be ordered now; null: not for sale any more. One that is missing is not known yet. */
export type KnownDrinks = ReadonlyMap<string, Drink | null>;

/** Adds the drinks of an earlier order that can be ordered now, as far as they are in stock. */
export function withSameAgain(
  draft: Draft,
  items: readonly { product_id: string | null; quantity: number }[],
  drinks: KnownDrinks,
): Draft {
  return items.reduce((changed, { product_id, quantity }) => {
    const drink = drinks.get(product_id ?? '');
    return drink && drink.units_left > 0
      ? withQuantity(changed, drink, Math.min(quantity, drink.units_left))
      : changed;
  }, draft);
}

/** Replaces what is empty or was filled in before; what a member typed stays. */
function fill(draft: Draft, values: Partial<OrderForm>): Draft {
  const form = { ...draft.form };
  const filled: Partial<OrderForm> = {};
  for (const field of ['name', 'email', 'location', 'building', 'unit', 'notes'] as const) {
    const isOurs = form[field].trim() === '' || form[field] === draft.filled[field];
    if (!isOurs) continue;
    form[field] = values[field] ?? '';
    if (form[field]) filled[field] = form[field];
  }
  return { ...draft, form, filled };
}

const addressFields = ({ address, notes }: Address): Partial<OrderForm> => {
  const { location, building, unit } = orderFormOf({
    customerName: '',
    customerEmail: null,
    customerPhone: '',
    address,
    deliveryNotes: null,
  });
  return { location, building, unit, notes: notes ?? '' };
};

/**
 * Fills in name, email and last address of the customer who was found by the phone.
 * @param phone as it is stored
 * @param customer null: the phone is new, so what came from another customer is taken out
 */
export const withCustomer = (
  draft: Draft,
  phone: string,
  customer: { name: string; email: string; addresses: readonly Address[] } | null,
): Draft =>
  fill(
    { ...draft, filledFor: phone },
    customer
      ? {
          name: customer.name,
          email: customer.email,
          ...(customer.addresses[0] ? addressFields(customer.addresses[0]) : {}),
        }
      : {},
  );

/** Another of the customer's addresses, whatever the fields contain. */
export function withAddress(draft: Draft, address: Address): Draft {
  const values = addressFields(address);
  return {
    ...draft,
    form: { ...draft.form, ...values },
    filled: { ...draft.filled, ...values },
  };
}

/** Whether the fields contain this address. */
export function hasAddress({ form }: Draft, address: Address): boolean {
  const { location, building, unit } = addressFields(address);
  return form.location === location && form.building === building && form.unit === unit;
}

/** What is sent: an order that is collected has no address, whatever the hidden fields contain. */
export const formToSend = ({ form, isCollected }: Draft): OrderForm =>
  isCollected ? { ...form, location: '', building: '', unit: '', areaId: '' } : form;

/** The area that was chosen, or that the location names; null for an order that is collected. */
export function areaOfDraft(
  { form, isCollected }: Draft,
  areas: readonly DeliveryArea[],
): GuessedArea<DeliveryArea> | null {
  if (isCollected) return null;
  const chosen = areaWithId(form.areaId, areas);
  return chosen ? { area: chosen, place: chosen.name } : guessArea(form.location, areas);
}

export interface Amounts {
  units: number;
  /** In cents. */
  fee: number;
  /** What the code takes off, in cents: 0 below its minimum. */
  discount: number;
  /** In cents. */
  total: number;
}

/** @param deliveryFee of the settings, in cents */
export function amountsOf(
  draft: Draft,
  drinks: KnownDrinks,
  deliveryFee: number,
  area: DeliveryArea | null = null,
): Amounts {
  const fee = draft.isCollected ? 0 : feeIn(area, deliveryFee);
  const priced = draft.lines.map((line) => ({ price: priceOf(line, drinks), quantity: line.quantity }));
  const discount = draft.discount ? discountOn(draft.discount, subtotalOf(priced), fee) : 0;
  return {
    fee,
    discount,
    units: draft.lines.reduce((sum, { quantity }) => sum + quantity, 0),
    total: draft.lines.length === 0 ? 0 : orderTotal(priced, fee, discount),
  };
}

export const priceOf = (line: Line, drinks: KnownDrinks): number =>
  drinks.get(line.productId)?.price ?? line.price;

/** Why a line cannot be ordered, as a sentence; null if it can, or as long as that is unknown. */
export function problemOfLine(line: Line, drinks: KnownDrinks): string | null {
  const drink = drinks.get(line.productId);
  if (drink === undefined) return null;
  if (drink === null) return 'Not for sale any more';
  if (drink.units_left === 0) return 'Out of stock';
  return drink.units_left < line.quantity ? `Only ${drink.units_left} left` : null;
}

const storageKey = 'jani.staff.new-order';

/** @param memberId whose draft it is: the next user of the tab does not see it */
export function storeDraft(storage: DeviceStorage | null, memberId: string, draft: Draft | null): void {
  try {
    if (draft && isBegun(draft)) storage?.setItem(storageKey, JSON.stringify({ memberId, draft }));
    else storage?.removeItem(storageKey);
  } catch {
    // Full or disabled storage must not prevent an order.
  }
}

/** The draft of this tab, or an empty one. */
export function readDraft(storage: DeviceStorage | null, memberId: string): Draft {
  const empty = emptyDraft();
  try {
    const stored = JSON.parse(storage?.getItem(storageKey) ?? 'null') as {
      memberId: string;
      draft: Draft;
    } | null;
    if (stored?.memberId !== memberId) {
      storage?.removeItem(storageKey);
      return empty;
    }
    return { ...empty, ...stored.draft, form: { ...emptyForm, ...stored.draft.form } };
  } catch {
    return empty;
  }
}
