// A menu below a button that exists before this code is loaded, so it is not the library's trigger.
import { DropdownMenu } from 'radix-ui';
import { type ReactNode, type RefObject, useRef } from 'react';

interface AnchoredMenuProps {
  /** Opens and labels the menu. */
  button: RefObject<HTMLButtonElement | null>;
  isOpen: boolean;
  onOpenChange(isOpen: boolean): void;
  /** @param after runs what was chosen after the menu has closed and focus is back on the button */
  children(after: (chosen: () => void) => void): ReactNode;
}

export const menuItemStyle =
  'flex min-h-11 cursor-pointer items-center gap-2 rounded-md px-2 text-ink no-underline outline-none data-disabled:cursor-not-allowed data-highlighted:bg-paper-deep data-highlighted:outline-2 data-highlighted:-outline-offset-2 data-highlighted:outline-dusk-500';

export function AnchoredMenu({ button, isOpen, onOpenChange, children }: AnchoredMenuProps) {
  const chosen = useRef<(() => void) | null>(null);

  function afterClosing(event: Event) {
    event.preventDefault();
    // A press elsewhere has moved the focus there.
    if (document.activeElement === document.body) button.current?.focus({ preventScroll: true });
    const run = chosen.current;
    chosen.current = null;
    if (run) setTimeout(run);
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
          {children((run) => {
            chosen.current = run;
          })}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
