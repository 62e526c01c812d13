// A menu that changes a status: saves on choice, not while moving through the options, with a confirmation if the
// change is hard to undo (WAI-ARIA, menu button pattern).
import { DropdownMenu } from 'radix-ui';
import { useRef, useState } from 'react';
import { Link } from 'react-router';
import { buttonStyle } from '../ui/button.tsx';
import { useLeaveDialog } from '../ui/dialog-history.ts';
import { Icon } from '../ui/icons.tsx';
import { ConfirmDialog } from './confirm-dialog.tsx';
import { StatusBadge, statusLabel } from './status-badge.tsx';
import type { Confirmation } from './status-change.ts';

interface StatusSelectProps {
  /** Labels the status for screen readers: 'Status of ORD-1001'. */
  label: string;
  value: string;
  options: readonly string[];
  /** The status that is being saved. */
  saving?: string | undefined;
  /** The confirmation of this status; null if none. */
  confirmation(status: string): Confirmation | null;
  /** Why a status cannot be chosen; null if it can. */
  block(status: string): string | null;
  onChoose(status: string): void;
}

export function StatusSelect({
  label,
  value,
  options,
  saving,
  confirmation,
  block,
  onChoose,
}: StatusSelectProps) {
  const [isOpen, setOpen] = useState(false);
  // Stays set while the dialog closes.
  const [pendingConfirmation, setPendingConfirmation] = useState<(Confirmation & { to: string }) | null>(
    null,
  );
  const [isConfirming, setConfirming] = useState(false);
  const chosen = useRef<string | null>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const shownStatus = saving ?? value;
  const isSaving = saving !== undefined;

  /** After the menu has closed and focus is back on its button, where it returns after the confirmation. */
  function decide() {
    const to = chosen.current;
    chosen.current = null;
    if (to === null || to === value) return;
    const question = confirmation(to);
    if (!question) {
      onChoose(to);
      return;
    }
    setPendingConfirmation({ ...question, to });
    setConfirming(true);
  }
  return (
    <>
      <DropdownMenu.Root modal={false} open={isOpen} onOpenChange={(open) => setOpen(open && !isSaving)}>
        <DropdownMenu.Trigger
          ref={trigger}
          aria-label={`${label}: ${statusLabel(shownStatus)}`}
          // Not disabled while saving, which would lose the keyboard's focus.
          aria-busy={isSaving || undefined}
          aria-disabled={isSaving || undefined}
          className="inline-flex min-h-11 max-w-full items-center justify-self-start gap-1 rounded-md border border-line-strong bg-card px-1.5 transition-[border-color] hover:border-dusk-500 aria-busy:cursor-progress aria-busy:opacity-70"
        >
          <StatusBadge status={shownStatus} isSmall />
          <Icon name="chevron" className="size-4 text-ink-soft print:hidden" />
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal container={trigger.current?.closest<HTMLElement>('[role=dialog], main') ?? null}>
          <DropdownMenu.Content
            align="end"
            sideOffset={4}
            collisionPadding={8}
            onCloseAutoFocus={() => setTimeout(decide)}
            className="z-[60] min-w-52 rounded-lg border border-line bg-card p-1.5 text-sm text-ink shadow-lg"
          >
            <DropdownMenu.RadioGroup
              value={value}
              onValueChange={(to) => {
                chosen.current = to;
              }}
            >
              {options.map((option) => {
                const reason = option === value ? null : block(option);
                return (
                  <DropdownMenu.RadioItem
                    key={option}
                    value={option}
                    disabled={reason !== null}
                    className="flex min-h-11 cursor-pointer items-center gap-2 rounded-md px-2 outline-none data-disabled:cursor-not-allowed data-highlighted:bg-paper-deep data-highlighted:outline-2 data-highlighted:-outline-offset-2 data-highlighted:outline-dusk-500"
                  >
                    <span className="size-4 shrink-0">
                      <DropdownMenu.ItemIndicator>
                        <Icon name="check" className="size-4" />
                      </DropdownMenu.ItemIndicator>
                    </span>
                    <StatusBadge status={option} />
                    {reason ? <span className="ml-auto pl-2 text-xs text-ink-soft">{reason}</span> : null}
                  </DropdownMenu.RadioItem>
                );
              })}
            </DropdownMenu.RadioGroup>
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {pendingConfirmation ? (
        <ConfirmDialog
          open={isConfirming}
          title={pendingConfirmation.title}
          text={pendingConfirmation.text}
          confirm={pendingConfirmation.confirm}
          tone={pendingConfirmation.tone}
          dismiss="Keep it as it is"
          alternative={pendingConfirmation.instead ? <Instead {...pendingConfirmation.instead} /> : null}
          onCancel={() => setConfirming(false)}
          onConfirm={() => {
            setConfirming(false);
            onChoose(pendingConfirmation.to);
          }}
        />
      ) : null}
    </>
  );
}

/** Leads to another screen instead of confirming. */
function Instead({ label, to }: NonNullable<Confirmation['instead']>) {
  const { replace, leave } = useLeaveDialog();
  return (
    <Link to={to} replace={replace} onClick={leave} className={buttonStyle('leaf')}>
      {label}
    </Link>
  );
}
