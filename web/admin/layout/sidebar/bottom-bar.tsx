// The menu of a phone, at the thumb: the screens of a day with what waits, and the others behind 'More'.
import type { ReactNode } from 'react';
import { NavLink } from 'react-router';
import type { Waiting } from '../../live/use-waiting.ts';
import { useMember } from '../roles/use-member.tsx';
import {
  atTheThumb,
  badgeText,
  forRole,
  rarelyNeeded,
  screens,
  sumUp,
  type Waits,
  waitsBehind,
} from './navigation.ts';
import { StaffIcon } from './staff-icons.tsx';

interface BottomBarProps {
  waiting: Waiting;
  isMenuOpen: boolean;
  /** Opens the whole menu. */
  onMenu(): void;
}

const others = [...screens, ...rarelyNeeded].filter((entry) => !atTheThumb.includes(entry));

const place =
  'relative flex min-h-14 min-w-0 flex-1 flex-col items-center justify-center gap-0.5 rounded-md px-0.5 text-xs leading-tight font-semibold text-ink-soft aria-[current=page]:text-dusk-800';

export function BottomBar({ waiting, isMenuOpen, onMenu }: BottomBarProps) {
  const { role } = useMember();
  return (
    <nav
      data-bottom-bar
      aria-label="Screens of the day"
      className="fixed inset-x-0 bottom-0 z-30 flex border-t border-line bg-card px-1 pb-[env(safe-area-inset-bottom)] md:hidden print:hidden"
    >
      {forRole(role, atTheThumb).map((entry) => (
        <NavLink key={entry.to} to={entry.to} className={`${place} no-underline`}>
          <Mark icon={<StaffIcon name={entry.icon} />} waits={waitsBehind(entry, waiting)}>
            {entry.label}
          </Mark>
        </NavLink>
      ))}
      <button
        type="button"
        onClick={onMenu}
        aria-haspopup="dialog"
        aria-expanded={isMenuOpen}
        className={place}
      >
        <Mark
          icon={<StaffIcon name="menu" />}
          waits={forRole(role, others).flatMap((entry) => waitsBehind(entry, waiting))}
        >
          More
        </Mark>
      </button>
    </nav>
  );
}

function Mark({ icon, waits, children }: { icon: ReactNode; waits: readonly Waits[]; children: string }) {
  const { number, words } = sumUp(waits);
  return (
    <>
      {icon}
      <span className="max-w-full truncate">{children}</span>
      {number > 0 ? (
        <span className="absolute top-1 left-1/2 ml-2 min-w-4.5 rounded-pill bg-danger px-1 text-center text-xs leading-4.5 font-bold text-white tabular-nums">
          {badgeText(number)}
          <span className="sr-only"> {words}</span>
        </span>
      ) : null}
    </>
  );
}
