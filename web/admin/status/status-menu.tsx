// The menu of a status, below its button.
import { DropdownMenu } from 'radix-ui';
import type { RefObject } from 'react';
import { Icon } from '../../ui/icons.tsx';
import { AnchoredMenu, menuItemStyle } from '../ui/anchored-menu.tsx';
import { type StaffStatus, StatusBadge } from './status-badge.tsx';

interface StatusMenuProps<Status> {
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
  return (
    <AnchoredMenu button={button} isOpen={isOpen} onOpenChange={onOpenChange}>
      {(after) => (
        <DropdownMenu.RadioGroup
          value={value}
          onValueChange={(to) => {
            const chosen = options.find((option) => option === to);
            if (chosen) after(() => onChosen(chosen));
          }}
        >
          {options.map((option) => {
            const reason = option === value ? null : block(option);
            return (
              <DropdownMenu.RadioItem
                key={option}
                value={option}
                disabled={reason !== null}
                className={menuItemStyle}
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
      )}
    </AnchoredMenu>
  );
}
