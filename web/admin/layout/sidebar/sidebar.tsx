// The sidebar: next to the page from 768 px on, otherwise a drawer. 16rem, 3rem collapsed, 18rem as a drawer.
import type { RefObject } from 'react';
import { NavLink } from 'react-router';
import { useDialogEntry, useLeaveDialog } from '../../../ui/dialog/dialog-history.ts';
import { closeDialog } from '../../../ui/dialog/native-dialog.ts';
import { Icon } from '../../../ui/icons.tsx';
import type { Waiting } from '../../live/use-waiting.ts';
import { useMember } from '../roles/use-member.tsx';
import { StaffMark } from '../staff-mark.tsx';
import {
  account,
  badgeText,
  type Entry,
  forRole,
  newOrder,
  rarelyNeeded,
  screens,
  sumUp,
  type Waits,
  waitsBehind,
} from './navigation.ts';
import { StaffIcon } from './staff-icons.tsx';

interface SidebarProps {
  storeName: string;
  waiting: Waiting;
  isExpanded: boolean;
}

export function Sidebar({ storeName, waiting, isExpanded }: SidebarProps) {
  return (
    <aside
      id="sidebar"
      data-state={isExpanded ? 'expanded' : 'collapsed'}
      className="group/sidebar on-dusk sticky top-0 hidden h-dvh w-64 shrink-0 flex-col gap-6 overflow-hidden bg-dusk-900 px-3 py-4 text-dusk-100 transition-[width,padding] data-[state=collapsed]:w-12 data-[state=collapsed]:px-1 md:flex"
    >
      <Title storeName={storeName} />
      <Entries waiting={waiting} />
      <p className="mt-auto flex items-center gap-2 px-3 text-xs text-dusk-300 group-data-[state=collapsed]/sidebar:invisible">
        <kbd className="rounded-sm border border-white/25 px-1.5 font-body">Ctrl</kbd>
        <kbd className="rounded-sm border border-white/25 px-1.5 font-body">B</kbd>
        <span className="whitespace-nowrap">hides this</span>
      </p>
    </aside>
  );
}

export function SidebarDrawer({
  storeName,
  waiting,
  drawer,
  isOpen,
  onClose,
}: {
  storeName: string;
  waiting: Waiting;
  drawer: RefObject<HTMLDialogElement | null>;
  isOpen: boolean;
  onClose(): void;
}) {
  const close = () => closeDialog(drawer.current);
  const { replace, leave } = useLeaveDialog();
  useDialogEntry(isOpen, () => {
    close();
    return true;
  });
  function leaveByLink() {
    leave();
    close();
  }
  return (
    <dialog
      ref={drawer}
      onClose={onClose}
      closedby="any"
      aria-label="Menu"
      className="staff-drawer on-dusk fixed inset-y-0 left-0 m-0 h-dvh max-h-none w-72 max-w-[calc(100vw-3rem)] overflow-y-auto bg-dusk-900 px-3 py-4 text-dusk-100 shadow-xl md:hidden"
    >
      <div className="grid gap-6">
        <div className="flex items-start justify-between">
          <Title storeName={storeName} />
          <button
            type="button"
            onClick={close}
            aria-label="Close menu"
            className="grid size-11 place-items-center rounded-md hover:bg-white/10"
          >
            <Icon name="close" />
          </button>
        </div>
        <Entries waiting={waiting} replace={replace} onChoose={leaveByLink} />
      </div>
    </dialog>
  );
}

function Title({ storeName }: { storeName: string }) {
  return (
    <div className="flex items-center gap-2.5 px-1.5">
      <StaffMark className="size-8" />
      <p className="grid leading-tight whitespace-nowrap group-data-[state=collapsed]/sidebar:hidden">
        <span className="font-display text-lg leading-tight font-extrabold text-white">{storeName}</span>
        <span className="text-xs font-semibold text-ember-300">Admin</span>
      </p>
    </div>
  );
}

interface EntriesProps {
  waiting: Waiting;
  /** Whether a link replaces the current history entry. */
  replace?: boolean;
  onChoose?: () => void;
}

function Entries({ waiting, replace = false, onChoose }: EntriesProps) {
  const { role } = useMember();
  const list = (entries: readonly Entry[]) => (
    <ul className="grid gap-1 empty:hidden">
      {forRole(role, entries).map((entry) => (
        <li key={entry.to}>
          <EntryLink {...entry} waiting={waitsBehind(entry, waiting)} replace={replace} onChoose={onChoose} />
        </li>
      ))}
    </ul>
  );
  return (
    <nav aria-label="Admin" className="grid gap-4">
      {onChoose ? list([newOrder]) : null}
      {list(screens)}
      <div className="border-t border-white/15 pt-4 has-[ul:empty]:hidden">
        {list(onChoose ? [...rarelyNeeded, account] : rarelyNeeded)}
      </div>
    </nav>
  );
}

interface EntryLinkProps extends Pick<Entry, 'label' | 'to' | 'icon'> {
  waiting: readonly Waits[];
  replace: boolean;
  onChoose: (() => void) | undefined;
}

function EntryLink({ label, to, icon, waiting, replace, onChoose }: EntryLinkProps) {
  const { number, words } = sumUp(waiting);
  return (
    <NavLink
      to={to}
      replace={replace}
      onClick={onChoose}
      title={number > 0 ? `${label}: ${number} ${words}` : label}
      className="relative flex min-h-11 items-center gap-3 rounded-md px-2.5 text-sm font-semibold whitespace-nowrap transition-colors hover:bg-white/10 hover:text-white aria-[current=page]:bg-dusk-700 aria-[current=page]:text-white"
    >
      <StaffIcon name={icon} />
      <span className="group-data-[state=collapsed]/sidebar:sr-only">{label}</span>
      {number > 0 ? (
        <span className="ml-auto min-w-6 rounded-pill bg-ember-300 px-1.5 py-0.5 text-center text-xs leading-tight font-bold text-dusk-950 tabular-nums group-data-[state=collapsed]/sidebar:absolute group-data-[state=collapsed]/sidebar:top-1 group-data-[state=collapsed]/sidebar:right-0 group-data-[state=collapsed]/sidebar:min-w-4.5 group-data-[state=collapsed]/sidebar:px-1">
          {badgeText(number)}
          <span className="sr-only"> {words}</span>
        </span>
      ) : null}
    </NavLink>
  );
}
