// What follows the order form, in one sentence.
import { placeOutsideNairobi } from './delivery-place.ts';

const payment = "Next, you'll pay with M-PESA.";

/** @param location as typed; '' before it is */
export const nextSteps = (location: string): string =>
  placeOutsideNairobi(location) ? payment : `At your door in 15-60 minutes within Nairobi. ${payment}`;

/** The honest sentence about a place outside Nairobi; null for other places. */
export const outsideNairobiNote = (location: string): string | null => {
  const place = placeOutsideNairobi(location);
  return place && `We'll call or WhatsApp you to agree the fee and day for ${place}.`;
};
