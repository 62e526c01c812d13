// The state of the backups, and a request for one.
import { useEffect, useState } from 'react';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useInstallation } from '../layout/use-installation.ts';
import { formatDateTime } from '../ui/time/dates.ts';
import { useSystemStatus } from './dashboard-queries.ts';
import { describeBackup } from './describe-status.ts';

/** A backup without a result after this time counts as failed. */
const backupTimeoutMs = 5 * 60_000;

export function useBackup() {
  const { tables } = useMember().staff;
  const isHosted = useInstallation().url !== '';
  // The last attempt at the time of the request.
  const [awaited, setAwaited] = useState<{ since: string | null } | null>(null);
  const system = useSystemStatus(awaited !== null);
  const status = system.error ? null : (system.data ?? null);

  const lastAttempt = system.data?.last_attempt_at ?? null;
  const isDone = awaited !== null && lastAttempt !== awaited.since;
  useEffect(() => {
    if (!awaited) return;
    if (isDone) setAwaited(null);
    const timer = setTimeout(() => setAwaited(null), backupTimeoutMs);
    return () => clearTimeout(timer);
  }, [awaited, isDone]);

  const save = useSave({
    write: async () => dataOf(await tables.rpc('request_backup')),
    success: 'A backup is being made',
    failure: 'Failed to ask for a backup',
    refresh: [],
    onSuccess: () => setAwaited({ since: lastAttempt }),
  });

  const madeAt = isHosted ? null : status?.last_backup_at;
  return {
    system,
    status,
    isHosted,
    /** Null while it is being measured. */
    line: system.isPending && !isHosted ? null : describeBackup(isHosted, status),
    title: madeAt ? formatDateTime(madeAt) : undefined,
    isBusy: save.isPending || awaited !== null,
    /** Whether the requested backup is being made. */
    isMade: awaited !== null,
    backUp: () => save.mutate(),
  };
}
