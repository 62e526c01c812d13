// Everything that a tab does about notices by itself.
import type { Waiting } from '../live/use-waiting.ts';
import { useCounts } from './use-counts.ts';
import { useNotices } from './use-notices.ts';

interface DeviceNoticesProps {
  waiting: Waiting;
  /** False after the end of the session. */
  isActive: boolean;
}

export function DeviceNotices({ waiting, isActive }: DeviceNoticesProps) {
  useNotices(isActive);
  useCounts(waiting, isActive);
  return null;
}
