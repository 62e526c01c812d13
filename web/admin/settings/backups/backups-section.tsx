// The backups: made now, downloaded, checked once more; commands to restore; and the version that runs.
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { describeAuthProblem } from '../../../lib/auth-error-texts.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { TextField } from '../../../ui/field.tsx';
import { useAction } from '../../../ui/use-action.ts';
import { StatusLine } from '../../dashboard/status-line.tsx';
import { useBackup } from '../../dashboard/use-backup.ts';
import { dataOf, messageForUser } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { ConfirmDialog } from '../../dialogs/confirm-dialog.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { ScreenLoadState } from '../../ui/load-states.tsx';
import { NameInHistory } from '../../ui/staff-name.tsx';
import { formatDateTime } from '../../ui/time/dates.ts';
import { TerminalCommand } from '../terminal-command.tsx';
import { useIsPast } from '../use-is-past.ts';
import { RunningVersionCard } from '../version-card.tsx';
import { type Backup, type Download, sizeInWords, useBackups, useDownload } from './backup-queries.ts';

export function BackupsSection() {
  const { line, title, isHosted, isBusy, backUp } = useBackup();
  return (
    <>
      <Card
        title="Last backup"
        description={isHosted ? undefined : 'Every night at three. Each one is restored once, as a check.'}
      >
        <dl>
          <StatusLine label="Last Backup" line={line} title={title} />
        </dl>
        {isHosted ? null : (
          <Button tone="quiet" className="mt-4" isBusy={isBusy} onClick={backUp}>
            {isBusy ? 'Backing up...' : 'Back up now'}
          </Button>
        )}
      </Card>
      {isHosted ? (
        <Card title="Download or check">
          <p>
            Not from here: the Supabase project makes the backups. Its dashboard lists and downloads them,
            under <em>Database, Backups</em>.
          </p>
        </Card>
      ) : (
        <StoredBackups />
      )}
      <RunningVersionCard isHosted={isHosted} />
      <Card
        title="Restore or move"
        description="In a terminal on the shop's machine, while the shop is stopped."
      >
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          {isHosted ? null : (
            <>
              <TerminalCommand
                what="Restore a backup"
                command="npm run restore -- data/backups/jani-….tar.gz"
              />
              <TerminalCommand
                what="Restore it in place of the present data"
                command="npm run restore -- --replace data/backups/jani-….tar.gz"
              />
            </>
          )}
          <TerminalCommand
            what="Move to another database"
            command="npm run move -- --to postgres://USER:PASSWORD@HOST/DATABASE"
          />
        </div>
      </Card>
    </>
  );
}

function StoredBackups() {
  const backups = useBackups();
  const [chosen, setChosen] = useState<Backup | null>(null);
  return (
    <Card
      title="Download or check"
      description="The last seven are on the server's disk. Keep a copy elsewhere: a broken disk takes them along."
    >
      {backups.data === undefined ? (
        <ScreenLoadState noun="backups" queries={[backups]} />
      ) : backups.data.backups.length === 0 ? (
        <p>None yet. The first one is made a few minutes after the start.</p>
      ) : (
        <ul aria-label="Backups" className="divide-y divide-line rounded-md border border-line">
          {backups.data.backups.map((backup) => (
            <StoredBackup
              key={backup.id}
              backup={backup}
              downloads={backups.data.downloads.filter(({ backup_id }) => backup_id === backup.id)}
              onDownload={() => setChosen(backup)}
            />
          ))}
        </ul>
      )}
      <DownloadDialog key={chosen?.id} backup={chosen} onClose={() => setChosen(null)} />
    </Card>
  );
}

/** A check without a result after this time: no process makes backups, or it was restarted. */
const checkTimeoutMs = 10 * 60_000;

interface StoredBackupProps {
  backup: Backup;
  downloads: readonly Download[];
  onDownload(): void;
}

function StoredBackup({ backup, downloads, onDownload }: StoredBackupProps) {
  const { tables } = useMember().staff;
  const { id, finished_at, size, outcome, check_requested_at, checked_at, check_problem } = backup;
  const name = formatDateTime(finished_at);
  const check = useSave<void>({
    write: async () => dataOf(await tables.rpc('request_backup_check', { backup_id: id })),
    success: 'The backup is being checked. That takes about a minute',
    failure: 'Failed to ask for a check',
    refresh: ['backups'],
  });
  const isAwaited = isCheckAwaited(backup);
  const isLost = useIsPast(isAwaited ? Date.parse(check_requested_at ?? '') + checkTimeoutMs : null);
  const isChecking = check.isPending || (isAwaited && !isLost);
  const [last] = downloads;
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3">
      <div className="min-w-48 grow">
        <p className="font-semibold">
          {name} <span className="font-normal text-ink-soft">· {sizeInWords(size)}</span>
        </p>
        <p role="status" className="text-sm">
          {isChecking ? (
            'Being checked: it is restored into an empty database...'
          ) : isAwaited ? (
            <span className="text-danger">
              The check has no result. Does the process with BACKUPS=on run?
            </span>
          ) : checked_at && check_problem ? (
            <span className="font-semibold text-danger">
              The check of {formatDateTime(checked_at)} failed: {check_problem}
            </span>
          ) : checked_at ? (
            <span className="text-success">Restored as a check on {formatDateTime(checked_at)}</span>
          ) : outcome === 'verified' ? (
            <span className="text-ink-soft">Restored as a check when it was made</span>
          ) : (
            <Badge tone="yellow">Read, not restored</Badge>
          )}
        </p>
        {last ? (
          <p className="text-sm text-ink-soft wrap-anywhere">
            Downloaded {downloads.length > 1 ? `${downloads.length} times, last ` : ''}by{' '}
            <NameInHistory email={last.downloaded_by_email} otherwise="" /> on{' '}
            {formatDateTime(last.allowed_at)}
          </p>
        ) : null}
      </div>
      <div className="flex flex-wrap gap-2">
        <Button
          tone="quiet"
          isBusy={isChecking}
          aria-label={`Check the backup of ${name}`}
          onClick={() => check.mutate()}
        >
          {isChecking ? 'Checking...' : 'Check'}
        </Button>
        <Button tone="outline" aria-label={`Download the backup of ${name}`} onClick={onDownload}>
          Download
        </Button>
      </div>
    </li>
  );
}

const isCheckAwaited = ({ check_requested_at, checked_at }: Backup): boolean =>
  check_requested_at !== null && (checked_at === null || checked_at < check_requested_at);

/** Asks before all personal data leaves the server, with the second factor where the account has one. */
function DownloadDialog({ backup, onClose }: { backup: Backup | null; onClose(): void }) {
  const { staff } = useMember();
  const form = useRef<HTMLFormElement>(null);
  const { isRunning, run } = useAction();
  const [problem, setProblem] = useState<string | null>(null);
  const download = useDownload();
  const factors = useQuery({
    queryKey: ['account', 'factors'],
    enabled: backup !== null,
    queryFn: async () => {
      const { data, error } = await (await staff.auth()).mfa.listFactors();
      if (error) throw error;
      return data.all.filter(({ status }) => status === 'verified');
    },
  });
  const app = factors.data?.find(({ factor_type }) => factor_type === 'totp');
  const key = factors.data?.find(({ factor_type }) => factor_type === 'webauthn');

  const refused = (error: unknown) => {
    console.warn('A backup was not downloaded', error);
    const own = error instanceof Error ? messageForUser(error) : '';
    setProblem(own || describeAuthProblem(error, 'The download could not begin. Please try again.'));
  };
  const begin = () =>
    run(async () => {
      if (!backup) return;
      setProblem(null);
      if (app) {
        const code = String(new FormData(form.current ?? undefined).get('code') ?? '').replace(/\s/g, '');
        if (!/^\d{6}$/.test(code)) {
          setProblem('Please enter the six digits that your authenticator app shows');
          return;
        }
        const { error } = await (await staff.auth()).mfa.challengeAndVerify({ factorId: app.id, code });
        if (error) throw error;
      } else if (key) {
        const { error } = await (await staff.auth()).mfa.webauthn.authenticate({ factorId: key.id });
        if (error) throw error;
      }
      await download(backup);
      onClose();
    }, refused);

  return (
    <ConfirmDialog
      hasOwnEntry={false}
      open={backup !== null}
      title="Download this backup?"
      text={`${backup ? `${formatDateTime(backup.finished_at)}, ${sizeInWords(backup.size)}. ` : ''}It holds everything: customers with phones and addresses, orders, staff accounts and the shop's keys. Keep it where only you can read it. The shop notes that you downloaded it.`}
      tone="leaf"
      confirm="Download"
      isBusy={isRunning || (backup !== null && factors.isPending)}
      onConfirm={() => void begin()}
      onCancel={onClose}
    >
      <form
        ref={form}
        noValidate
        className="grid gap-3 empty:hidden"
        onSubmit={(event) => {
          event.preventDefault();
          // Not the form of the settings, in which React nests this dialog.
          event.stopPropagation();
          void begin();
        }}
      >
        {app ? (
          <TextField
            label="Code from your authenticator app"
            name="code"
            required
            autoFocus
            inputMode="numeric"
            autoComplete="one-time-code"
            maxLength={12}
            problem={problem ?? undefined}
          />
        ) : problem ? (
          <p role="alert" className="font-semibold text-danger">
            {problem}
          </p>
        ) : key ? (
          <p className="text-sm">Your security key is asked for.</p>
        ) : null}
      </form>
    </ConfirmDialog>
  );
}
