// Everything that can be done with a row besides its next step, behind one button.
import { useId, useRef, useState } from 'react';
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { usePart } from '../ui/use-part.ts';
import type { RowAction } from './row-menu-items.tsx';

const load = () => import('./row-menu-items.tsx');

interface RowMenuProps {
  /** What the row is called, such as its order number. */
  name: string;
  /** Made when the menu opens. */
  actions(): readonly RowAction[];
}

export function RowMenu({ name, actions }: RowMenuProps) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const [isNear, setNear] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const menu = usePart(load, isNear || isOpen, () => setOpen(false));
  // A list shows many of these buttons, so that it does not wait for the code of the menu.
  return (
    <span className="relative inline-flex shrink-0">
      <button
        ref={button}
        id={id}
        type="button"
        aria-label={`More for ${name}`}
        title="More"
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onPointerEnter={() => setNear(true)}
        onFocus={() => setNear(true)}
        onClick={() => setOpen(!isOpen)}
        onKeyDown={(event) => {
          if (event.key !== 'ArrowDown') return;
          event.preventDefault();
          setOpen(true);
        }}
        className="grid size-9 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink rows:size-11"
      >
        <StaffIcon name="more" className="size-5 stroke-[3]" />
      </button>
      {menu && (isNear || isOpen) ? (
        <menu.RowMenuItems
          button={button}
          actions={isOpen ? actions() : []}
          isOpen={isOpen}
          onOpenChange={setOpen}
        />
      ) : null}
    </span>
  );
}
