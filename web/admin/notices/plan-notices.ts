// What a device does about the notices that wait: which are new, which ended, and which sound they make.
import type { NoticeKind } from '../../../supabase/types.ts';
import type { DeviceSettings } from './device-settings.ts';

/** Two sounds: one for work that comes in, one for work that went wrong or waits for too long. */
export type Sound = 'new' | 'trouble';

const sounds: Record<NoticeKind, Sound> = {
  paid_order: 'new',
  inquiry: 'new',
  order_to_agree: 'new',
  refund_to_approve: 'new',
  low_stock: 'new',
  late_order: 'trouble',
  failed_delivery: 'trouble',
  cancel_request: 'trouble',
};

interface Waiting {
  id: string;
  kind: NoticeKind;
}

export interface NoticePlan<Notice> {
  /** New since the last time, the oldest first. */
  fresh: Notice[];
  /** Those of them that this device wants as notifications. */
  notifications: Notice[];
  /** Ids of notices that someone has dealt with since the last time. */
  ended: string[];
  /** Sound for the new ones; null: none. */
  sound: Sound | null;
  /** Whether the sound of new orders is repeated. */
  isRepeating: boolean;
}

/**
 * Compares what waits with what waited the last time.
 * @param before ids of the last time; null at the first time, when nothing counts as new
 * @param waiting the newest first
 */
export function planNotices<Notice extends Waiting>(
  before: ReadonlySet<string> | null,
  waiting: readonly Notice[],
  { volume, repeats, notifies, kinds }: Pick<DeviceSettings, 'volume' | 'repeats' | 'notifies' | 'kinds'>,
): NoticePlan<Notice> {
  const now = new Set(waiting.map(({ id }) => id));
  const fresh = before === null ? [] : waiting.filter(({ id }) => !before.has(id)).reverse();
  const wanted = fresh.filter(({ kind }) => kinds.includes(kind));
  const heard = volume === 'off' ? [] : wanted.map(({ kind }) => sounds[kind]);
  return {
    fresh,
    notifications: notifies ? wanted : [],
    ended: [...(before ?? [])].filter((id) => !now.has(id)),
    // A new order is worth more than a late one when both come at once.
    sound: heard.includes('new') ? 'new' : (heard[0] ?? null),
    isRepeating:
      volume !== 'off' &&
      repeats &&
      kinds.includes('paid_order') &&
      waiting.some(({ kind }) => kind === 'paid_order'),
  };
}
