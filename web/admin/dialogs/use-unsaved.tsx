// Confirms before unsaved changes are lost by any kind of navigation.
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
import { type Blocker, type Location, useBlocker, useLocation } from 'react-router';

export interface Unsaved {
  /** Whether the confirmation is shown. */
  isBlocked: boolean;
  stay(): void;
  leave(): void;
  /** Sets whether there are unsaved changes, effective before the next render. Stable. */
  note(isUnsaved: boolean): void;
}

interface OpenForm {
  isUnsaved: boolean;
  isAway(from: Location, to: Location): boolean;
}

interface Scope {
  forms: Set<OpenForm>;
  blocker: Blocker;
  /** The form that confirms; null while no navigation is blocked. */
  confirming: OpenForm | null;
}

const ScopeContext = createContext<Scope | null>(null);

/** The router consults a single blocker, the one registered last. So all forms of the panel share this one. */
export function UnsavedScope({ children }: { children: ReactNode }) {
  const [forms] = useState(() => new Set<OpenForm>());
  const found = useRef<OpenForm | null>(null);
  const blocker = useBlocker(({ currentLocation, nextLocation }) => {
    const unsaved = [...forms].filter((form) => form.isUnsaved && form.isAway(currentLocation, nextLocation));
    found.current = unsaved.at(-1) ?? null;
    return found.current !== null;
  });
  const scope = useMemo(
    () => ({ forms, blocker, confirming: blocker.state === 'blocked' ? found.current : null }),
    [forms, blocker],
  );
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
  const { forms, blocker, confirming } = scope;
  const [form] = useState<OpenForm>(() => ({ isUnsaved, isAway }));
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
      if (isBlocked) blocker.reset?.();
    };
  }, [isBlocked, blocker]);
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
  return {
    isBlocked,
    stay: () => blocker.reset?.(),
    leave() {
      note(false);
      blocker.proceed?.();
    },
    note,
  };
}

/** Whether the screen has unsaved changes: reported to a `beforeunload` event, or typed into a dialog. */
export function hasUnsavedChanges(): boolean {
  return (
    !window.dispatchEvent(new Event('beforeunload', { cancelable: true })) ||
    document.querySelector('[role=dialog][data-state=open] form') !== null
  );
}
