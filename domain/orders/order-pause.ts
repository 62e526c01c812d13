// A pause of orders: why and until when the shop takes none (docs/decisions/pauses.md).
import { nairobiClock } from '../nairobi-time.ts';

export interface OrderPause {
  /** What customers read. */
  sentence: string;
  /** When it ends by itself: ISO. Null: when staff resume. */
  until: string | null;
}

/** The columns of `store_settings` about it. */
export interface PauseSettings {
  orders_pause_reason: string | null;
  orders_paused_until: string | null;
}

/** As `private.pause_sentence`. */
export const pauseSentence = (reason: string, until: string | null): string =>
  `Orders are paused ${until === null ? 'for now' : `until ${nairobiClock(Date.parse(until))}`}: ${reason}.`;

/**
 * The pause of these settings, as `private.are_orders_paused`.
 * @param now epoch ms
 * @returns null while the shop takes orders
 */
export function orderPauseOf(settings: PauseSettings, now: number): OrderPause | null {
  const { orders_pause_reason: reason, orders_paused_until: until } = settings;
  if (reason === null || (until !== null && Date.parse(until) <= now)) return null;
  return { sentence: pauseSentence(reason, until), until };
}

/** Reasons that staff choose from, and the words that customers read. */
export const pauseReasons: readonly { label: string; words: string }[] = [
  { label: 'Rain', words: 'heavy rain' },
  { label: 'No rider', words: 'no rider is free' },
  { label: 'Power cut', words: 'we have a power cut' },
  { label: 'Too many orders', words: 'we have more orders than we can deliver' },
];
