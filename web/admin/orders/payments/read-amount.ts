import { readAmountCents } from '../../../../domain/mpesa/amount.ts';

/** Whole shillings, as typed or as in M-PESA's message (`Ksh1,201.00`), in cents; null for anything else. */
export const readAmount = (text: string): number | null => {
  const cents = readAmountCents(text);
  return cents !== null && cents > 0 && cents % 100 === 0 ? cents : null;
};
