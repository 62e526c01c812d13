// Validation of the customer's order form: rules in the order of their checks, with their messages.
import { isEmail } from './email.ts';
import { normalisePhone } from './phone.ts';

export interface OrderForm {
  name: string;
  email: string;
  phone: string;
  location: string;
  building: string;
  unit: string;
  /** For the rider, for example how to find the gate. May have several lines. */
  notes: string;
}

/** Maximum total of an order, in cents. */
export const orderTotalLimit = 2_000_000_000;

/** Maximum characters of each field, as in the database. */
export const orderFormLimits: Record<keyof OrderForm, number> = {
  name: 120,
  email: 254,
  phone: 20,
  location: 200,
  building: 120,
  unit: 60,
  notes: 500,
};

export interface OrderFormProblem {
  field: 'name' | 'email' | 'phone' | 'location' | 'notes' | 'acceptsTerms';
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
  notes: {
    field: 'notes',
    title: 'Notes Too Long',
    text: `The delivery notes are longer than ${orderFormLimits.notes} characters`,
  },
  acceptsTerms: {
    field: 'acceptsTerms',
    title: 'One More Thing',
    text: 'Please confirm that you are 18 or older and accept our terms and privacy notice',
  },
} as const satisfies Record<string, OrderFormProblem>;

/** The text without invisible characters. */
const seen = (text: string): string => text.replace(/\p{Cf}/gu, '').trim();

/**
 * Returns the first problem of an order form (specification §5, Customer order form).
 * @param isMissingTick whether the shop requires the box for age and terms, and it is not ticked
 * @returns the problem with its title and text, or null when the form may be sent
 */
export function checkOrderForm(form: OrderForm, isMissingTick = false): OrderFormProblem | null {
  if (seen(form.name).length < 2) return problems.name;
  if (!isEmail(form.email.trim())) return problems.email;
  if (!normalisePhone(form.phone)) return problems.phone;
  if (seen(form.location).length < 3) return problems.location;
  if ([...form.notes.replace(/\r\n?/g, '\n').trim()].length > orderFormLimits.notes) return problems.notes;
  if (isMissingTick) return problems.acceptsTerms;
  return null;
}
