// A status that is changed where it is shown: chosen from a menu, saved by choosing and not by moving through it, and confirmed
// first where the change is hard to take back (WAI-ARIA, menu button pattern).
import { DropdownMenu } from 'radix-ui';
import { useRef, useState } from 'react';
import { Icon } from '../ui/icons.tsx';
import { ConfirmDialog } from './confirm-dialog.tsx';
import { StatusBadge, statusWords } from './status-badge.tsx';
import type { Confirmation } from './status-change.ts';

interface StatusSelectProps {
  /** Names the status for screen readers: 'Status of ORD-1001'. */
  label: string;
  value: string;
  options: readonly string[];
  /** The status that is being saved. */
  saving?: string | undefined;
  /** The confirmation of this status; null if none. */
  confirmation(status: string): Confirmation | null;
  /** Why a status cannot be chosen; null when it can. */
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
  // Kept while the dialog closes.
  const [asked, setAsked] = useState<(Confirmation & { to: string }) | null>(null);
  const [isAsking, setAsking] = useState(false);
  const chosen = useRef<string | null>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const shown = saving ?? value;
  const isSaving = saving !== undefined;

  /** Once the menu is closed and the focus back on its button, where it returns after the question. */
  function decide() {
    const to = chosen.current;
    chosen.current = null;
    if (to === null || to === value) return;
    const question = confirmation(to);
    if (!question) {
      onChoose(to);
      return;
    }
    setAsked({ ...question, to });
    setAsking(true);
  }
  return (
    <>
      <DropdownMenu.Root modal={false} open={isOpen} onOpenChange={(open) => setOpen(open && !isSaving)}>
        <DropdownMenu.Trigger
          ref={trigger}
          aria-label={`${label}: ${statusWords(shown)}`}
          // Not disabled while it is saved, which would throw the keyboard's focus away.
          aria-busy={isSaving || undefined}
          aria-disabled={isSaving || undefined}
          className="inline-flex min-h-11 max-w-full items-center justify-self-start gap-1 rounded-md border border-line-strong bg-card px-1.5 transition-[border-color] hover:border-dusk-500 aria-busy:cursor-progress aria-busy:opacity-70"
        >
          <StatusBadge status={shown} isSmall />
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
      {asked ? (
        <ConfirmDialog
          open={isAsking}
          title={asked.title}
          text={asked.text}
          confirm={asked.confirm}
          tone={asked.tone}
          dismiss="Keep it as it is"
          onCancel={() => setAsking(false)}
          onConfirm={() => {
            setAsking(false);
            onChoose(asked.to);
          }}
        />
      ) : null}
    </>
  );
}
