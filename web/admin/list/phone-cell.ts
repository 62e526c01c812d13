// Phone numbers in files. Apart from csv.ts, whose library is loaded with the first export.
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';

/**
 * A phone number for a cell, in groups, which spreadsheets keep as text.
 * @param phone as stored or typed; null without one
 * @returns such as `0712 345 678`; other numbers unchanged
 */
export const phoneCell = (phone: string | null): string | null =>
  phone && formatPhone(normalisePhone(phone) ?? phone);
