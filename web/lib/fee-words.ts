// The delivery fee in words, written by loaders: pages that show it have the words in their data, not in their scripts.
import { type DeliveryArea, feeRange } from '../../domain/deliveries/delivery-area.ts';
import { formatKes, formatKsh } from '../../domain/money.ts';

/**
 * @param shopFee in cents
 * @returns words for the list of drinks, for a drink (short and in a sentence), for the delivery page and its FAQ
 */
export function describeFee(areas: readonly DeliveryArea[], shopFee: number) {
  const { lowest, differs } = feeRange(areas, shopFee);
  const outside = 'Outside Nairobi County';
  if (differs && lowest === 0) {
    return {
      banner: 'Free delivery in some areas',
      short: 'Free delivery in some areas',
      sentence: 'Delivery is free in some areas.',
      card: 'Delivery is free in some areas, any number of bottles.',
      answer: `Delivery is free in some areas; you see the fee of yours before you pay. ${outside} further charges may apply, and we ask you before we send anything.`,
    };
  }
  if (differs) {
    return {
      banner: `Delivery from ${formatKes(lowest)}, depending on the area`,
      short: `+ delivery from ${formatKsh(lowest)}`,
      sentence: `Delivery from ${formatKsh(lowest)}, depending on your area.`,
      card: `Delivery from ${formatKsh(lowest)}, depending on your area, any number of bottles.`,
      answer: `From ${formatKsh(lowest)}, depending on your area; you see the fee before you pay. ${outside} further charges may apply, and we ask you before we send anything.`,
    };
  }
  if (lowest === 0) {
    return {
      banner: 'Free delivery on all orders',
      short: 'Free delivery',
      sentence: 'Delivery is free.',
      card: 'Delivery is free, on every order, any number of bottles.',
      answer: `Delivery is free within Nairobi. ${outside} charges may apply, and we ask you before we send anything.`,
    };
  }
  return {
    banner: `${formatKes(lowest)} delivery fee applies to all orders`,
    short: `+ ${formatKsh(lowest)} delivery`,
    sentence: `Delivery adds ${formatKsh(lowest)}.`,
    card: `${formatKsh(lowest)} delivery, on every order, any number of bottles.`,
    answer: `A ${formatKsh(lowest)} delivery fee applies to all orders; you see it before you pay. ${outside} further charges may apply, and we ask you before we send anything.`,
  };
}
