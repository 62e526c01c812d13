// The menu of a status, below its button.
import { DropdownMenu } from 'radix-ui';
import { type RefObject, useRef } from 'react';
import { Icon } from '../../ui/icons.tsx';
import { type StaffStatus, StatusBadge } from './status-badge.tsx';

interface StatusMenuProps<Status> {
  /** Opens and labels the menu. It exists before this code is loaded, so it is not the library's trigger. */
  button: RefObject<HTMLButtonElement | null>;
  value: Status;
  options: readonly Status[];
  isOpen: boolean;
  /** Why a status cannot be chosen; null if it can. */
  block(status: Status): string | null;
  onOpenChange(isOpen: boolean): void;
  /** Called after the menu has closed and focus is back on the button. */
  onChosen(status: Status): void;
}

export function StatusMenu<Status extends StaffStatus>({
  button,
  value,
  options,
  isOpen,
  block,
  onOpenChange,
  onChosen,
}: StatusMenuProps<Status>) {
  const chosen = useRef<Status | null>(null);

  function afterClosing(event: Event) {
    event.preventDefault();
    // A press elsewhere has moved the focus there.
    if (document.activeElement === document.body) button.current?.focus({ preventScroll: true });
    const to = chosen.current;
    chosen.current = null;
    if (to !== null) setTimeout(() => onChosen(to));
  }
  return (
    <DropdownMenu.Root modal={false} open={isOpen} onOpenChange={onOpenChange}>
      {/* Only the place of the menu. */}
      <DropdownMenu.Trigger asChild>
        <span aria-hidden="true" className="pointer-events-none absolute inset-0" />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal container={button.current?.closest<HTMLElement>('[role=dialog], main') ?? null}>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-labelledby={button.current?.id}
          onInteractOutside={(event) => {
            // The button itself closes the menu.
            if (event.target instanceof Node && button.current?.contains(event.target))
              event.preventDefault();
          }}
          onCloseAutoFocus={afterClosing}
          className="z-[60] min-w-52 rounded-lg border border-line bg-card p-1.5 text-sm text-ink shadow-lg"
        >
          <DropdownMenu.RadioGroup
            value={value}
            onValueChange={(to) => {
              chosen.current = options.find((option) => option === to) ?? null;
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
  );
}
