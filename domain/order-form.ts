// The customer's order form: what must hold, in the order it is checked, in the words it is told.
import { isEmail } from './email.ts';
import { normalisePhone } from './phone.ts';

export interface OrderForm {
  name: string;
  email: string;
  phone: string;
  location: string;
  building: string;
  unit: string;
}

export interface OrderFormProblem {
  field: 'name' | 'email' | 'phone' | 'location';
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
} as const satisfies Record<string, OrderFormProblem>;

/** What there is to see of a text: some signs are invisible. */
const seen = (text: string): string => text.replace(/\p{Cf}/gu, '').trim();

/**
 * The first thing wrong with an order form (specification §5, Customer order form).
 * @returns the problem with its title and text, or null when the form may be sent
 */
export function checkOrderForm(form: OrderForm): OrderFormProblem | null {
  if (seen(form.name).length < 2) return problems.name;
  if (!isEmail(form.email.trim())) return problems.email;
  if (!normalisePhone(form.phone)) return problems.phone;
  if (seen(form.location).length < 3) return problems.location;
  return null;
}
