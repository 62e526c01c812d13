// The menu of a row, below its button.
import { DropdownMenu } from 'radix-ui';
import type { RefObject } from 'react';
import { Link, type To } from 'react-router';
import { AnchoredMenu, menuItemStyle } from '../ui/anchored-menu.tsx';

/** A line of the menu: does something, leads to a screen, or to an address outside of the panel. */
export type RowAction = { label: string } & (
  | { run(): void }
  | { to: To; state?: unknown }
  | { href: string }
);

interface RowMenuItemsProps {
  button: RefObject<HTMLButtonElement | null>;
  actions: readonly RowAction[];
  isOpen: boolean;
  onOpenChange(isOpen: boolean): void;
}

export function RowMenuItems({ button, actions, isOpen, onOpenChange }: RowMenuItemsProps) {
  return (
    <AnchoredMenu button={button} isOpen={isOpen} onOpenChange={onOpenChange}>
      {(after) =>
        actions.map((action) => {
          const { label } = action;
          if ('run' in action) {
            return (
              <DropdownMenu.Item key={label} onSelect={() => after(action.run)} className={menuItemStyle}>
                {label}
              </DropdownMenu.Item>
            );
          }
          return (
            <DropdownMenu.Item key={label} asChild className={menuItemStyle}>
              {'to' in action ? (
                <Link to={action.to} state={action.state} preventScrollReset>
                  {label}
                </Link>
              ) : (
                <a
                  href={action.href}
                  {...(action.href.startsWith('http') ? { target: '_blank', rel: 'noreferrer' } : {})}
                >
                  {label}
                </a>
              )}
            </DropdownMenu.Item>
          );
        })
      }
    </AnchoredMenu>
  );
}
