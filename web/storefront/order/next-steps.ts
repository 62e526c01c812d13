// What follows the order form, in one sentence.
import {
  type DeliveryArea,
  describePromise,
  type GuessedArea,
} from '../../../domain/deliveries/delivery-area.ts';

const payment = "Next, you'll pay with M-PESA.";

/**
 * @param area null while none is chosen or recognised
 * @param arrival such as `Arrives by 22:14`; null while it is not known
 */
export function nextSteps(area: DeliveryArea | null, arrival: string | null = null): string {
  if (area?.needs_agreement)
    return "We agree the delivery fee and day with you first. You'll pay after that.";
  if (arrival !== null) return `${arrival}. ${payment}`;
  const promise = area ? describePromise(area) : '15-60 minutes';
  return `At your door in ${promise}${promise === '15-60 minutes' ? ' within Nairobi' : ''}. ${payment}`;
}

/** The honest sentence about an area without a promise; null for others. */
export function agreementNote(
  chosen: Pick<GuessedArea<DeliveryArea>, 'area' | 'place'> | null,
): string | null {
  if (!chosen?.area.needs_agreement) return null;
  const place = chosen.place === chosen.area.name ? '' : ` for ${chosen.place}`;
  return `We'll call or WhatsApp you to agree the fee and day${place}.`;
}
