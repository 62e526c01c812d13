// Recovery codes: after a lost phone, each removes the second factor once. They are shown once, when they are made.
import { useEffect, useRef, useState } from 'react';
import type { Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAttempt } from '../data/use-attempt.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useStoreName } from '../layout/use-store-name.ts';
import { saveFile } from '../list/export/save-file.ts';

/** @param onChanged after new codes were made, or the shown ones hidden */
export function useRecoveryCodes({ tables }: Staff, onChanged: () => void) {
  const [codes, setCodes] = useState<string[] | null>(null);
  const { isBusy, problem, attempt } = useAttempt('The recovery codes could not be made. Please try again.');
  const make = () =>
    attempt(async () => {
      const { data, error } = await tables.rpc('make_recovery_codes');
      if (error) return new Error(error.message);
      setCodes(data);
      onChanged();
      return null;
    });
  return { codes, isBusy, problem, make, hide: () => setCodes(null) };
}

interface RecoveryCodesProps {
  made: ReturnType<typeof useRecoveryCodes>;
  email: string;
  /** How many were not used yet. */
  left: number;
}

export function RecoveryCodes({
  made: { codes, isBusy, problem, make, hide },
  email,
  left,
}: RecoveryCodesProps) {
  const [isAsking, setAsking] = useState(false);
  return (
    <Card
      title="Recovery codes"
      description="For a lost phone. A code, after your password, removes the authenticator app, so that you can add a new one."
    >
      <div className="grid gap-4">
        {problem ? <Notice tone="danger" title={problem} /> : null}
        {codes ? (
          <ShownCodes codes={codes} email={email} onKept={hide} />
        ) : (
          <>
            {left > 0 ? (
              <p>
                <b className="tabular-nums">{left} of 10</b> codes are left.
              </p>
            ) : (
              <Notice tone="info" title="You have no recovery codes">
                If you lose your phone, only another owner can help you.
              </Notice>
            )}
            <Button
              tone={left > 0 ? 'quiet' : 'leaf'}
              isBusy={isBusy}
              className="justify-self-start"
              onClick={() => (left > 0 ? setAsking(true) : void make())}
            >
              {left > 0 ? 'Make new codes' : 'Make recovery codes'}
            </Button>
          </>
        )}
      </div>
      <ConfirmDialog
        open={isAsking}
        title="Make ten new recovery codes?"
        text="The codes that you have kept stop working."
        tone="leaf"
        confirm="Make new codes"
        isBusy={isBusy}
        onConfirm={() => void make().then(() => setAsking(false))}
        onCancel={() => setAsking(false)}
      />
    </Card>
  );
}

function ShownCodes({ codes, email, onKept }: { codes: string[]; email: string; onKept(): void }) {
  const storeName = useStoreName();
  const text = codes.join('\n');
  // They are shown once, on a phone below the step that led to them.
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => frame.current?.focus(), []);
  return (
    <div ref={frame} tabIndex={-1} className="grid scroll-my-24 gap-4 outline-none">
      <Notice tone="success" title="Keep these ten codes now">
        They are not shown again. Print or write them down, and keep them apart from your phone. Each works
        once.
      </Notice>
      <ol
        aria-label="Recovery codes"
        className="grid grid-cols-2 gap-x-4 gap-y-1 rounded-md border border-line px-4 py-3"
      >
        {codes.map((code) => (
          <li key={code} className="font-mono text-sm whitespace-nowrap select-all max-[24rem]:text-xs">
            {code}
          </li>
        ))}
      </ol>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Button onClick={onKept}>I have kept them</Button>
        <Button
          tone="quiet"
          onClick={() =>
            saveFile(
              'recovery-codes',
              'txt',
              `${storeName} Admin, ${email}\nRecovery codes, each works once:\n\n${text}\n`,
            )
          }
        >
          Save as a file
        </Button>
        <CopyButton text={text} what="recovery codes" />
      </div>
    </div>
  );
}
