// The menu on small screens: a native modal dialog, so that the browser handles focus, Escape and the background.
// Opened by an invoker command, so that it works before hydration.
import { useEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'react-router';
import { buttonStyle } from '../../../ui/button.tsx';
import { useDialogEntry, useLeaveDialog } from '../../../ui/dialog/dialog-history.ts';
import { closeDialog, isDialogOpen, openDialog } from '../../../ui/dialog/native-dialog.ts';
import { Icon } from '../../../ui/icons.tsx';
import { isCurrent, pages } from '../navigation.ts';
import { useShop } from '../use-shop.ts';
import { HeaderSearch } from './header-search.tsx';
import { Wordmark } from './wordmark.tsx';

const opens = { command: 'show-modal', commandfor: 'site-menu' };
const closes = { command: 'close', commandfor: 'site-menu' };

export function SideDrawer({ chat }: { chat: string }) {
  const { settings } = useShop();
  const dialog = useRef<HTMLDialogElement>(null);
  const location = useLocation();
  const [isOpen, setOpen] = useState(false);
  const close = () => closeDialog(dialog.current);
  const { replace, leave } = useLeaveDialog();
  useDialogEntry(isOpen, () => {
    close();
    return true;
  });
  // It may have been opened before hydration.
  useEffect(() => setOpen(isDialogOpen(dialog.current)), []);

  // Where the browser has no invoker commands.
  const hasCommands = () => 'commandForElement' in HTMLButtonElement.prototype;
  function open() {
    if (!hasCommands()) openDialog(dialog.current);
    setOpen(true);
  }
  function leaveByLink() {
    leave();
    close();
  }

  return (
    <div className="ml-auto md:hidden">
      <button
        type="button"
        {...opens}
        onClick={open}
        aria-haspopup="dialog"
        aria-label="Menu"
        className="-mr-2 grid size-[min(3rem,15vw)] place-items-center rounded-pill text-dusk-900 hover:bg-paper-deep"
      >
        <Icon name="menu" className="size-7/12" />
      </button>

      <dialog
        ref={dialog}
        // The `close` event is asynchronous: the menu may be open again.
        onClose={() => setOpen(isDialogOpen(dialog.current))}
        id="site-menu"
        closedby="any"
        aria-label="Menu"
        className="drawer on-dusk fixed inset-y-0 right-0 left-auto m-0 h-dvh max-h-none w-[min(22rem,88vw)] max-w-none overflow-y-auto bg-dusk-900 text-white shadow-xl"
      >
        <div className="flex min-h-full flex-col gap-6 px-5 pt-3 pb-8">
          <div className="flex items-center justify-between">
            <Wordmark name={settings.store_name} isOnDusk />
            <button
              type="button"
              {...closes}
              onClick={() => hasCommands() || close()}
              aria-label="Close menu"
              className="-mr-2 grid size-[min(3rem,15vw)] shrink-0 place-items-center rounded-pill hover:bg-white/10"
            >
              <Icon name="close" className="size-1/2" />
            </button>
          </div>
          <HeaderSearch id="drawer-search" onSearch={leaveByLink} />
          <nav aria-label="Menu">
            <ul className="grid">
              {pages.map(({ label, to }) => (
                <li key={label}>
                  <Link
                    to={to}
                    replace={replace}
                    prefetch="intent"
                    onClick={leaveByLink}
                    aria-current={isCurrent(to, location) ? 'page' : undefined}
                    className="group flex min-h-14 items-center justify-between border-b border-white/12 font-display text-2xl font-bold hover:text-ember-300 aria-[current]:text-ember-300"
                  >
                    {label}
                    <Icon name="arrow" className="size-5 opacity-50 group-hover:opacity-100" />
                  </Link>
                </li>
              ))}
            </ul>
          </nav>
          <div className="mt-auto grid gap-3">
            <Link
              to="/track-order"
              replace={replace}
              prefetch="intent"
              onClick={leaveByLink}
              className={buttonStyle('ember', 'large')}
            >
              <Icon name="truck" />
              Track Your Order
            </Link>
            <a href={chat} className={buttonStyle('glass', 'large')}>
              <Icon name="chat" />
              Chat on WhatsApp
            </a>
          </div>
        </div>
      </dialog>
    </div>
  );
}
