// A button that shows a status and opens the menu that changes it: saves on choice, not while moving through the options, with a
// confirmation if the change is hard to undo (WAI-ARIA, menu button pattern).
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react';
import { Icon } from '../../ui/icons.tsx';
import { usePart } from '../ui/use-part.ts';
import { type StaffStatus, StatusBadge, statusLabel } from './status-badge.tsx';
import type { Choice, Confirmation } from './status-change.ts';

// A list shows many of these buttons, so it does not wait for the code of the menu.
const loadMenu = () => import('./status-menu.tsx');
export const loadConfirmation = () => import('./status-confirmation.tsx');
const prepare = (load: () => Promise<unknown>) => void load().catch(() => {});

/** Loads what the button opens. */
export const loadStatusParts = () => Promise.all([loadMenu(), loadConfirmation()]);

/** Loads the code of the menu at the first sign of activity. Some of the menus is used in nearly every visit, but not at once. */
let isWatching = false;
function prepareMenuOnActivity() {
  if (isWatching) return;
  isWatching = true;
  for (const event of ['pointermove', 'pointerdown', 'keydown', 'scroll'])
    window.addEventListener(event, () => prepare(loadMenu), { capture: true, once: true, passive: true });
}

interface StatusSelectProps<Status> {
  /** Labels the status for screen readers: 'Status of ORD-1001'. */
  label: string;
  value: Status;
  options: readonly Status[];
  /** The status that is being saved. */
  saving?: Status | undefined;
  /** The confirmation of this status; null if none. */
  confirmation(status: Status): Confirmation | null;
  /** Why a status cannot be chosen; null if it can. */
  block(status: Status): string | null;
  onChoose(status: Status, choice?: Choice['value']): void;
}

export function StatusSelect<Status extends StaffStatus>({
  label,
  value,
  options,
  saving,
  confirmation,
  block,
  onChoose,
}: StatusSelectProps<Status>) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const [isNear, setNear] = useState(false);
  const [isOpen, setOpen] = useState(false);
  // Stays set while the dialog closes.
  const [pending, setPending] = useState<(Confirmation & { to: Status }) | null>(null);
  const [isConfirming, setConfirming] = useState(false);
  const menu = usePart(loadMenu, isNear || isOpen, () => setOpen(false));
  const dialog = usePart(loadConfirmation, pending !== null, () => setPending(null));
  const shownStatus = saving ?? value;
  const isSaving = saving !== undefined;
  useEffect(prepareMenuOnActivity, []);

  function toggle(open: boolean) {
    setOpen(open && !isSaving);
    if (open) prepare(loadConfirmation);
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== 'ArrowDown') return;
    event.preventDefault();
    toggle(true);
  }
  /** After the menu has closed and focus is back on its button, where it returns after the confirmation. */
  function decide(to: Status) {
    if (to === value) return;
    const question = confirmation(to);
    if (!question) {
      onChoose(to);
      return;
    }
    setPending({ ...question, to });
    setConfirming(true);
  }
  return (
    <>
      <span className="relative inline-flex max-w-full justify-self-start">
        <button
          ref={button}
          id={id}
          type="button"
          aria-label={`${label}: ${statusLabel(shownStatus)}`}
          aria-haspopup="menu"
          aria-expanded={isOpen}
          // Not disabled while saving, which would lose the keyboard's focus.
          aria-busy={isSaving || undefined}
          aria-disabled={isSaving || undefined}
          onPointerEnter={() => setNear(true)}
          onFocus={() => setNear(true)}
          onClick={() => toggle(!isOpen)}
          onKeyDown={onKeyDown}
          className="inline-flex min-h-11 max-w-full items-center gap-1 rounded-md border border-line-strong bg-card px-1.5 transition-[border-color] hover:border-dusk-500 aria-busy:cursor-progress aria-busy:opacity-70 [&>span]:leading-4 [&>span]:whitespace-normal"
        >
          <StatusBadge status={shownStatus} isSmall />
          <Icon name="chevron" className="size-4 shrink-0 text-ink-soft print:hidden" />
        </button>
        {menu ? (
          <menu.StatusMenu
            button={button}
            value={value}
            options={options}
            isOpen={isOpen}
            block={block}
            onOpenChange={toggle}
            onChosen={decide}
          />
        ) : null}
      </span>
      {dialog && pending ? (
        <dialog.StatusConfirmation
          confirmation={pending}
          isOpen={isConfirming}
          onCancel={() => setConfirming(false)}
          onConfirm={(choice) => {
            setConfirming(false);
            onChoose(pending.to, choice);
          }}
        />
      ) : null}
    </>
  );
}
