// Validation of the form that assigns a delivery, with its messages.

export interface DeliveryForm {
  person: string;
  phone: string;
  vehicle: string;
  notes: string;
}

/** Problems by field; valid fields are absent. */
export type DeliveryFormProblems = Partial<Record<keyof DeliveryForm, string>>;

const required = {
  person: 'Delivery person name is required',
  phone: 'Phone number is required',
  vehicle: 'Vehicle information is required',
} as const;

/** Maximum lengths in characters, as in the database. */
export const deliveryFormLimits = { person: 120, phone: 40, vehicle: 120, notes: 500 } as const;

const tooLong = {
  person: `The name is longer than ${deliveryFormLimits.person} characters`,
  phone: `The phone number is longer than ${deliveryFormLimits.phone} characters`,
  vehicle: `The vehicle information is longer than ${deliveryFormLimits.vehicle} characters`,
  notes: `The delivery notes are longer than ${deliveryFormLimits.notes} characters`,
} as const;

/**
 * Returns all problems of an assignment (docs/product.md#deliveries-screen). A phone may be written in any
 * format, because riders also have foreign numbers and landlines.
 * @returns the problems by field, or null when the form may be sent
 */
export function checkDeliveryForm(form: DeliveryForm): DeliveryFormProblems | null {
  const problems: DeliveryFormProblems = {};
  for (const field of ['person', 'phone', 'vehicle', 'notes'] as const) {
    // The database counts characters, not UTF-16 code units.
    const length = [...form[field].trim()].length;
    if (length === 0 && field !== 'notes') problems[field] = required[field];
    if (length > deliveryFormLimits[field]) problems[field] = tooLong[field];
  }
  return Object.keys(problems).length > 0 ? problems : null;
}
