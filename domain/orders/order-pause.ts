// A pause of orders: why and until when the shop takes none (docs/decisions/pauses.md).

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

/** Nairobi has no daylight saving time. */
const nairobiOffsetMs = 3 * 60 * 60 * 1000;

/** The time of day in Nairobi, such as `18:30`. */
const clockOf = (time: string): string =>
  new Date(Date.parse(time) + nairobiOffsetMs).toISOString().slice(11, 16);

/** As `private.pause_sentence`. */
export const pauseSentence = (reason: string, until: string | null): string =>
  `Orders are paused ${until === null ? 'for now' : `until ${clockOf(until)}`}: ${reason}.`;

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
