// Dialogs in the browser's history: opening one adds an entry, closing it removes the entry, and Back closes the
// topmost one.
// The state of an entry contains the number of dialogs that are open above the page. Its URL is the URL of the page.
// Inside the router both locations have the hash `#_`, masked in the address bar: the router loads no data when only
// the entry's state differs.
import { useEffect, useLayoutEffect, useRef } from 'react';
import {
  type Location,
  type Path,
  useLocation,
  useNavigate,
  useNavigation,
  useNavigationType,
} from 'react-router';

const innerHash = '#_';
/** Maximum time in ms that a dialog may take to close after Back, or to stay open to confirm. */
const closingMs = 300;
/** Maximum time in ms that a step in the history, or leaving the page, may take. */
const travellingMs = 1000;

interface OpenDialog {
  /** @returns false if it stays open */
  close(): boolean;
  isClosing: boolean;
}

interface Steps {
  isIdle(): boolean;
  go(delta: number): void;
  /** Adds the entry of an open dialog, or corrects the current entry. */
  write(depth: number, isNew: boolean): void;
}

// Module state, because a document has one history. Not used on the server.
const dialogs: OpenDialog[] = [];
let steps: Steps | null = null;
/** Number of open dialogs of the current entry. */
let depth = 0;
/** Entries to remove in addition to those of closed dialogs. */
let entriesToLeave = 0;
/** Key of the entry that is being left; the next location has another. */
let leaving: string | null = null;
let travelTimer: number | undefined;
let settleTimer: number | undefined;

const readDepth = ({ state }: Location): number => (state as { dialogs?: number } | null)?.dialogs ?? 0;

/** Key of the browser's current entry, as used by the router. It may be newer than the rendered location. */
const currentKey = (): string => window.history.state?.key ?? 'default';

function settleSoon(): void {
  if (settleTimer !== undefined) return;
  settleTimer = window.setTimeout(() => {
    settleTimer = undefined;
    settle();
  });
}

/** Brings the history in line with the open dialogs. */
function settle(): void {
  if (!steps || leaving !== null || dialogs.some((dialog) => dialog.isClosing) || !steps.isIdle()) return;
  const surplus = depth - dialogs.length + entriesToLeave;
  if (surplus > 0) {
    entriesToLeave = 0;
    travel(() => steps?.go(-surplus));
    return;
  }
  while (depth < dialogs.length) {
    depth += 1;
    steps.write(depth, true);
  }
}

/** Waits for the next location before the history is changed again. */
function travel(start: () => void): void {
  leaving = currentKey();
  window.clearTimeout(travelTimer);
  travelTimer = window.setTimeout(() => {
    // The step was made; a busy phone has yet to render it.
    if (leaving !== currentKey()) return;
    // There was no entry to go back to, or the user is confirming unsaved changes.
    leaving = null;
    if (depth > dialogs.length && steps?.isIdle()) {
      depth = dialogs.length;
      steps.write(depth, false);
    }
    settle();
  }, travellingMs);
  start();
}

/** Closes dialogs after Back or Forward led to an entry with fewer dialogs than are open. */
function closeDownTo(newDepth: number): void {
  for (const dialog of dialogs.slice(newDepth).reverse()) {
    if (!dialog.close()) break;
    dialog.isClosing = true;
    window.setTimeout(() => {
      dialog.isClosing = false;
      settle();
    }, closingMs);
  }
  settleSoon();
}

/**
 * Prepares a navigation from a dialog to another page: it replaces the dialog's entry instead of going back first.
 */
function leaveDialogs(): void {
  if (depth > 0) travel(() => {});
}

/**
 * Gives a dialog its own history entry while it is open.
 * @param close called when Back leaves the entry; returns false where the dialog must stay open
 */
export function useDialogEntry(isOpen: boolean, close: () => boolean): void {
  const latest = useRef(close);
  useLayoutEffect(() => {
    latest.current = close;
  });
  // A layout effect, so that the entry below stores the scroll position of this moment.
  useLayoutEffect(() => {
    if (!isOpen) return;
    const dialog: OpenDialog = { close: () => latest.current(), isClosing: false };
    dialogs.push(dialog);
    settle();
    return () => {
      dialogs.splice(dialogs.indexOf(dialog), 1);
      settleSoon();
    };
  }, [isOpen]);
}

/**
 * For links and navigations out of a dialog: Back from the next page leads to this page, not to its open dialog.
 * @returns `replace` for the navigation, and `leave` to be called right before it
 */
export function useLeaveDialog(): { replace: boolean; leave(): void } {
  return { replace: readDepth(useLocation()) > 0, leave: leaveDialogs };
}

/** Goes back from the page's entry itself, together with those of its dialogs. */
export function leavePageEntry(): void {
  entriesToLeave = 1;
  settleSoon();
}

/** Synchronises the history with the open dialogs. Render it once per document, before or around every dialog. */
export function DialogHistory() {
  const location = useLocation();
  const type = useNavigationType();
  const navigate = useNavigate();
  const isIdle = useNavigation().state === 'idle';
  const now = useRef({ location, navigate, isIdle });
  useLayoutEffect(() => {
    now.current = { location, navigate, isIdle };
  });

  useLayoutEffect(() => {
    steps = {
      // The browser may already be at an entry that is not rendered yet: a step from the old one would undo it.
      isIdle: () => now.current.isIdle && now.current.location.key === currentKey(),
      go: (delta) => void now.current.navigate(delta),
      write(newDepth, isNew) {
        const {
          location: { pathname, search, hash, mask },
          navigate: go,
        } = now.current;
        const shown: Partial<Path> = mask ?? { pathname, search, hash };
        const inside = { pathname, search, hash: innerHash };
        const options = { mask: shown, preventScrollReset: true };
        // Read from the entry itself: the page may have removed parts of its state (`orderAgain`).
        const page = { ...window.history.state?.usr, dialogs: newDepth - 1 };
        if (isNew && newDepth === 1 && hash === '')
          void go(inside, { ...options, state: page, replace: true });
        void go(inside, { ...options, state: { ...page, dialogs: newDepth }, replace: !isNew });
      },
    };
    return () => {
      steps = null;
    };
  }, []);

  useEffect(() => {
    // Outdated render: the browser is already at another entry, or on the way there.
    if (location.key !== currentKey() || location.key === leaving) return;
    const isOwnStep = leaving !== null;
    leaving = null;
    window.clearTimeout(travelTimer);
    depth = readDepth(location);
    // The module's own steps close nothing: a dialog that opened during one gets an entry.
    if (type === 'POP' && !isOwnStep && depth < dialogs.length) closeDownTo(depth);
    else settleSoon();
  }, [location, type]);

  useEffect(() => {
    if (isIdle) settleSoon();
  }, [isIdle]);

  return null;
}
