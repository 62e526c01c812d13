// Customer and address of an order, as the customer's form and the one of staff check and send them: rules in the order of their checks,
// with their messages.
import { isEmail } from '../../../domain/people/email.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { visibleLength, wordLength } from '../../../domain/visible-text.ts';

export interface OrderForm {
  name: string;
  email: string;
  phone: string;
  location: string;
  building: string;
  unit: string;
  /** For the rider, for example how to find the gate. May have several lines. */
  notes: string;
  /** The area that was chosen; '' to recognise it by the location. */
  areaId: string;
  /** Latitude and longitude that the device reported; '' if it was not asked. */
  mapPoint: string;
}

/** Maximum characters, as in the database. */
export const orderFormLimits = {
  name: 120,
  location: 200,
  building: 120,
  unit: 60,
  notes: 500,
} as const;

export interface OrderFormProblem {
  field: keyof OrderForm | 'acceptsTerms' | 'discountCode';
  title: string;
  text: string;
}

const problems = {
  name: { field: 'name', title: 'Invalid Name', text: 'Please enter a valid name (at least 2 characters)' },
  email: { field: 'email', title: 'Invalid Email', text: 'Please enter a valid email address' },
  phone: {
    field: 'phone',
    title: 'Invalid Phone',
    text: 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)',
  },
  location: { field: 'location', title: 'Invalid Location', text: 'Please enter a valid delivery location' },
  acceptsTerms: {
    field: 'acceptsTerms',
    title: 'One More Thing',
    text: 'Please confirm that you are 18 or older and accept our terms and privacy notice',
  },
} as const satisfies Record<string, OrderFormProblem>;

const lengthSubjects = {
  name: ['Name', 'The name is'],
  location: ['Location', 'The delivery location is'],
  building: ['Building Name', 'The building name is'],
  unit: ['House/Unit Number', 'The house/unit number is'],
  notes: ['Notes', 'The delivery notes are'],
} as const satisfies Record<keyof typeof orderFormLimits, [string, string]>;

function findTooLong(form: OrderForm): OrderFormProblem[] {
  const fields = Object.keys(orderFormLimits) as (keyof typeof orderFormLimits)[];
  return fields
    .filter((field) => countCharacters(form[field]) > orderFormLimits[field])
    .map((field) => {
      const [title, subject] = lengthSubjects[field];
      const text = `${subject} longer than ${orderFormLimits[field]} characters`;
      return { field, title: `${title} Too Long`, text };
    });
}

/** The length as the database counts it, without the carriage returns that forms send. */
export const countCharacters = (text: string): number => [...text.replace(/\r\n?/g, '\n').trim()].length;

/** The text without format characters, which chats and contacts add to copied text. */
const withoutFormatCharacters = (text: string): string => text.replace(/\p{Cf}/gu, '').trim();

/**
 * The form of an earlier order.
 * @param order address as `place_order` writes it: location, then optionally building and unit
 */
export function orderFormOf(order: {
  customerName: string;
  customerEmail: string | null;
  customerPhone: string;
  address: string | null;
  deliveryNotes: string | null;
}): OrderForm {
  const [, location = '', building = '', unit = ''] =
    /^(.*?)(?:, Building: (.*?))?(?:, Unit: (.*?))?$/s.exec(order.address ?? '') ?? [];
  return {
    name: order.customerName,
    email: order.customerEmail ?? '',
    phone: formatPhone(order.customerPhone).replaceAll(' ', ''),
    location,
    building,
    unit,
    notes: order.deliveryNotes ?? '',
    areaId: '',
    mapPoint: '',
  };
}

/** Removes invisible characters of pasted text that the database rejects: bidirectional controls, tabs and similar. */
const plain = (typed: string): string =>
  typed.replace(/[\u202a-\u202e\u2066-\u2069]/g, '').replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');

/** The same for text with line breaks. */
const plainLines = (typed: string): string =>
  typed
    .split(/\r\n?|\n/)
    .map(plain)
    .join('\n')
    .trim();

/** The form as arguments of `place_order`. */
export const detailsToSend = (form: OrderForm) => ({
  customer_name: plain(form.name),
  customer_email: form.email.replace(/\p{Cf}/gu, ''),
  customer_phone: normalisePhone(form.phone) ?? form.phone,
  delivery_location: plain(form.location),
  building: plain(form.building) || null,
  unit: plain(form.unit) || null,
  delivery_notes: plainLines(form.notes) || null,
  // Earlier versions of the database have no such argument.
  ...(form.mapPoint ? { map_point: form.mapPoint } : {}),
});

/** The field that a refusal of `place_order` is about, by its code. */
export const fieldOfRefusal: Readonly<Partial<Record<string, OrderFormProblem['field']>>> = {
  name_invalid: 'name',
  name_too_long: 'name',
  email_invalid: 'email',
  email_too_long: 'email',
  phone_invalid: 'phone',
  phone_blocked: 'phone',
  location_invalid: 'location',
  address_too_long: 'location',
  notes_too_long: 'notes',
  area_unavailable: 'areaId',
  terms_not_accepted: 'acceptsTerms',
  discount_invalid: 'discountCode',
  discount_used: 'discountCode',
  discount_minimum: 'discountCode',
  too_many_discount_codes: 'discountCode',
};

/** Longer texts are reported as too long; this bounds what is counted. */
const bounded = (text: string): string => text.slice(0, 1000);

/**
 * Checks an order form (docs/product.md#order-form).
 * @param isMissingTick whether the shop requires the box for age and terms, and it is not ticked
 * @param optional fields that may be empty: staff enter orders without an email address, and collected ones without a location
 * @returns at most one problem per field, in the order of the checks; empty when the form may be sent
 */
export function checkOrderForm(
  form: OrderForm,
  isMissingTick = false,
  optional: readonly ('email' | 'location')[] = [],
): OrderFormProblem[] {
  const isLeftOut = (field: 'email' | 'location') =>
    optional.includes(field) && visibleLength(bounded(form[field])) === 0;
  return [
    ...(visibleLength(bounded(form.name)) < 2 ? [problems.name] : []),
    ...(isLeftOut('email') || isEmail(withoutFormatCharacters(bounded(form.email))) ? [] : [problems.email]),
    ...(normalisePhone(form.phone) ? [] : [problems.phone]),
    ...(isLeftOut('location') || wordLength(bounded(form.location)) >= 3 ? [] : [problems.location]),
    ...findTooLong(form),
    ...(isMissingTick ? [problems.acceptsTerms] : []),
  ];
}
