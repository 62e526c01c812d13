// Confirms before unsaved changes are lost by any kind of navigation, or by closing a dialog.
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { type Location, useBlocker, useLocation } from 'react-router';
import { CloseGuardOfDialog } from '../../ui/dialog/close-guard.ts';

export interface Unsaved {
  /** Whether the confirmation is shown. */
  isBlocked: boolean;
  stay(): void;
  leave(): void;
  /** Closes the dialog of the form by `go`, after the confirmation if it has unsaved changes. Stable. */
  close(go: () => void): void;
  /** Sets whether there are unsaved changes, effective before the next render. Stable. */
  note(isUnsaved: boolean): void;
}

interface OpenForm {
  isUnsaved: boolean;
  isAway(from: Location, to: Location): boolean;
  /** Identifies the dialog around the form. */
  dialog: unknown;
}

/** Something that would lose the changes of several forms, of which each confirms. */
interface Blocked {
  /** Those that have not confirmed yet. */
  forms: readonly OpenForm[];
  confirmed: readonly OpenForm[];
  /** Null: a navigation, which the router continues. */
  go: (() => void) | null;
}

interface Scope {
  forms: Set<OpenForm>;
  /** The form that confirms; null while nothing is blocked. */
  confirming: OpenForm | null;
  /** @param go is called once all of these forms have confirmed */
  block(forms: readonly OpenForm[], go: () => void): void;
  stay(): void;
  leave(): void;
}

const ScopeContext = createContext<Scope | null>(null);

/** The router consults a single blocker, the one registered last. So all forms of the panel share this one. */
export function UnsavedScope({ children }: { children: ReactNode }) {
  const [forms] = useState(() => new Set<OpenForm>());
  const [blocked, setBlocked] = useState<Blocked | null>(null);
  const blocker = useBlocker(({ currentLocation, nextLocation }) => {
    const unsaved = [...forms].filter((form) => form.isUnsaved && form.isAway(currentLocation, nextLocation));
    if (unsaved.length > 0) setBlocked({ forms: unsaved, confirmed: [], go: null });
    return unsaved.length > 0;
  });
  const block = useCallback(
    (unsaved: readonly OpenForm[], go: () => void) => setBlocked({ forms: unsaved, confirmed: [], go }),
    [],
  );
  const scope = useMemo(() => {
    const isBlocked = blocked !== null && (blocked.go !== null || blocker.state === 'blocked');
    const open = isBlocked ? blocked.forms.filter((form) => forms.has(form)) : [];
    const form = open.at(-1) ?? null;
    return {
      forms,
      confirming: form,
      block,
      stay() {
        setBlocked(null);
        blocker.reset?.();
      },
      leave() {
        if (!blocked || !form) return;
        const confirmed = [...blocked.confirmed, form];
        // Some may have closed since the question.
        const others = open.filter((one) => one !== form && forms.has(one));
        if (others.length > 0) {
          // A form that stays keeps the changes of all.
          setBlocked({ ...blocked, forms: others, confirmed });
          return;
        }
        for (const one of confirmed) one.isUnsaved = false;
        setBlocked(null);
        (blocked.go ?? blocker.proceed)?.();
      },
    };
  }, [forms, blocked, block, blocker]);
  return <ScopeContext value={scope}>{children}</ScopeContext>;
}

/** Whether it is a dialog that is open while the URL says so. */
const anyAddress = (from: Location, to: Location): boolean =>
  from.pathname !== to.pathname || from.search !== to.search;

/** For a form in an order or on a card of a list: an order that opens over the list, and closes, leaves the form as it is. */
export function useIsAwayFromHere(): OpenForm['isAway'] {
  const [{ pathname }] = useState(useLocation());
  return useCallback(
    (from, to) => !`${to.pathname}/`.startsWith(`${pathname}/`) || to.search !== from.search,
    [pathname],
  );
}

/** For a form of a whole screen. */
export const isAnotherScreen = (from: Location, to: Location): boolean => from.pathname !== to.pathname;

/**
 * @param isUnsaved whether there are unsaved changes; false for callers that set it later
 * @param isAway whether a navigation would lose them
 */
export function useUnsaved(isUnsaved: boolean, isAway = anyAddress): Unsaved {
  const scope = useContext(ScopeContext);
  if (!scope) throw new Error('useUnsaved is called outside of UnsavedScope');
  const { forms, confirming, block, stay, leave } = scope;
  const dialog = useContext(CloseGuardOfDialog);
  const [form] = useState<OpenForm>(() => ({ isUnsaved, isAway, dialog }));
  const mayClose = useCallback(
    (go: () => void) => {
      const unsaved = [...forms].filter((one) => one.isUnsaved && one.dialog === dialog);
      if (unsaved.length > 0) block(unsaved, go);
      return unsaved.length === 0;
    },
    [forms, dialog, block],
  );
  useEffect(() => {
    // For all forms of the dialog.
    dialog.current = mayClose;
  }, [dialog, mayClose]);
  useEffect(() => {
    form.isUnsaved = isUnsaved;
  }, [form, isUnsaved]);
  useEffect(() => {
    form.isAway = isAway;
  }, [form, isAway]);
  const isBlocked = confirming === form;
  // A form that closes while it confirms, because a colleague was faster, blocks no longer.
  const giveUp = useRef(() => {});
  useEffect(() => {
    giveUp.current = () => {
      if (isBlocked) stay();
    };
  }, [isBlocked, stay]);
  useEffect(() => {
    forms.add(form);
    return () => {
      forms.delete(form);
      giveUp.current();
    };
  }, [forms, form]);
  useEffect(() => {
    const confirmLeaving = (event: BeforeUnloadEvent) => {
      if (form.isUnsaved) event.preventDefault();
    };
    window.addEventListener('beforeunload', confirmLeaving);
    return () => window.removeEventListener('beforeunload', confirmLeaving);
  }, [form]);
  const note = useCallback(
    (has: boolean) => {
      form.isUnsaved = has;
    },
    [form],
  );
  const close = useCallback(
    (go: () => void) => {
      if (mayClose(go)) go();
    },
    [mayClose],
  );
  return { isBlocked, stay, leave, close, note };
}

/** Whether the screen has unsaved changes: reported to a `beforeunload` event, or typed into a dialog. */
export function hasUnsavedChanges(): boolean {
  return (
    !window.dispatchEvent(new Event('beforeunload', { cancelable: true })) ||
    document.querySelector('[role=dialog][data-state=open] form') !== null
  );
}
