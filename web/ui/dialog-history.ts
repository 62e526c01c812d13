// Dialogs in the browser's history: opening one adds an entry, closing it removes the entry, and Back closes the topmost one.
//
// An entry says in its state how many dialogs are open above the page. Its URL is that of the page. Inside the router both have
// the hash `#_`, which a mask keeps out of the address bar: between entries that differ in nothing else the router loads nothing.
import { useCallback, useEffect, useLayoutEffect, useRef } from 'react';
import {
  type Location,
  type Path,
  useLocation,
  useNavigate,
  useNavigation,
  useNavigationType,
} from 'react-router';

const innerHash = '#_';
/** How long a dialog may take to close after Back, or to stay open with a question. In ms. */
const closingMs = 300;
/** So long a step in the history, or leaving the page, may take. In ms. */
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

// One document has one history, so this is the state of the module. On the server none of it is used.
const dialogs: OpenDialog[] = [];
let steps: Steps | null = null;
/** Number of open dialogs of the current entry. */
let depth = 0;
/** Entries to remove besides those of closed dialogs. */
let entriesToLeave = 0;
/** Key of the entry that is being left; the next location has another. */
let leaving: string | null = null;
let travelTimer: number | undefined;
let settleTimer: number | undefined;

const readDepth = ({ state }: Location): number => {
  const stored = (state as { dialogs?: unknown } | null)?.dialogs;
  return typeof stored === 'number' && stored > 0 ? stored : 0;
};

/** Key of the browser's current entry, as the router names it. It may be ahead of the location that is rendered. */
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

/** Waits for the next location before anything else is done to the history. */
function travel(start: () => void): void {
  leaving = currentKey();
  window.clearTimeout(travelTimer);
  travelTimer = window.setTimeout(() => {
    // There was no entry to go back to, or unsaved changes are being confirmed.
    leaving = null;
    if (depth > dialogs.length && steps?.isIdle()) {
      depth = dialogs.length;
      steps.write(depth, false);
    }
    settle();
  }, travellingMs);
  start();
}

/** Back, or forward, has led to an entry with fewer dialogs than are open. */
function closeDownTo(wanted: number): void {
  for (const dialog of dialogs.slice(wanted).reverse()) {
    if (!dialog.close()) break;
    dialog.isClosing = true;
    window.setTimeout(() => {
      dialog.isClosing = false;
      settle();
    }, closingMs);
  }
  settleSoon();
}

/** The next navigation leaves the page from a dialog: it replaces the dialog's entry instead of going back first. */
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
  // Before anything else reacts to the opening: the entry below keeps the scroll position of this moment.
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

/**
 * For dialogs that are open while the URL says so.
 * @param replace leads to the URL without it
 * @returns closes it: by going back where it was opened from this page (`fromThisPage`), so that the page has one entry, else by `replace`
 */
export function useAddressDialogClose(replace: () => void): () => void {
  const isFromList = (useLocation().state as { isFromList?: boolean } | null)?.isFromList === true;
  return useCallback(() => {
    if (!isFromList) return replace();
    entriesToLeave = 1;
    settleSoon();
  }, [isFromList, replace]);
}

/** State of a navigation that opens such a dialog. */
export const fromThisPage = { isFromList: true };

/** Does the work; once in the document, around or before every dialog. */
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
      isIdle: () => now.current.isIdle,
      go: (delta) => void now.current.navigate(delta),
      write(newDepth, isNew) {
        const {
          location: { pathname, search, hash, mask },
          navigate: go,
        } = now.current;
        const shown: Partial<Path> = mask ?? { pathname, search, hash };
        const inside = { pathname, search, hash: innerHash };
        const options = { mask: shown, preventScrollReset: true };
        // Of the entry itself: a page may have used up what it was opened with (`orderAgain`).
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
    // Rendered late: the browser is at another entry by now, or on its way from this one.
    if (location.key !== currentKey() || location.key === leaving) return;
    const isOwnStep = leaving !== null;
    leaving = null;
    window.clearTimeout(travelTimer);
    depth = readDepth(location);
    // A step of its own closes nothing: a dialog that opened during it gets an entry.
    if (type === 'POP' && !isOwnStep && depth < dialogs.length) closeDownTo(depth);
    else settleSoon();
  }, [location, type]);

  useEffect(() => {
    if (isIdle) settleSoon();
  }, [isIdle]);

  return null;
}
