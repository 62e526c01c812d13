// A dialog with two layouts: a drawer from the bottom on phones, a centred dialog on larger screens.
import { Dialog } from 'radix-ui';
import {
  type ComponentProps,
  createContext,
  type MouseEvent,
  type PointerEvent,
  type ReactNode,
  useContext,
  useEffect,
  useRef,
  useState,
} from 'react';
import { Drawer } from 'vaul';
import { Icon } from '../icons.tsx';
import { type CloseGuard, CloseGuardOfDialog } from './close-guard.ts';
import { useDialogEntry } from './dialog-history.ts';
import './dialog-or-drawer.css';

/** Width from which it is a centred dialog (docs/product.md#numbers). */
const wide = '(min-width: 768px)';

type Shape = 'dialog' | 'drawer';

interface Surface {
  shape: Shape;
  isBusy: boolean;
  setBusy(isBusy: boolean): void;
}

const SurfaceContext = createContext<Surface>({ shape: 'dialog', isBusy: false, setBusy() {} });

const widths = {
  medium: 'w-[min(36rem,calc(100vw-3rem))]',
  large: 'w-[min(42rem,calc(100vw-3rem))]',
  wide: 'w-[min(60rem,calc(100vw-3rem))]',
};

interface DialogOrDrawerProps {
  open: boolean;
  onClose(): void;
  /**
   * Whether opening adds a history entry. False if the URL already contains the dialog, or if it confirms a blocked
   * navigation. Default: true.
   */
  hasOwnEntry?: boolean;
  /** Maximum width as a centred dialog: 36, 42 or 60 rem. */
  size?: keyof typeof widths;
  /** Contains a DialogHeading, which labels the dialog. */
  children: ReactNode;
}

export function DialogOrDrawer({
  open,
  onClose,
  hasOwnEntry = true,
  size = 'medium',
  children,
}: DialogOrDrawerProps) {
  const [isBusy, setBusy] = useState(false);
  const guard = useRef<CloseGuard>(null);
  const shape = useShape(open);
  const opener = useRef<HTMLElement | null>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const lastPressInside = useRef(Number.NEGATIVE_INFINITY);
  const lastClicked = useRef<EventTarget | null>(null);
  const isStillOpen = useRef(open);
  useEffect(() => {
    isStillOpen.current = open;
  }, [open]);
  function requestClose(): boolean {
    // Where the URL contains the dialog, closing it is a navigation, which can be blocked itself.
    if (isBusy || (hasOwnEntry && guard.current?.(onClose) === false)) return false;
    onClose();
    return true;
  }
  useDialogEntry(open && hasOwnEntry, requestClose);
  if (shape === null) return null;

  const close = (isOpen: boolean) => {
    if (isOpen) return;
    requestClose();
    setTimeout(() => isStillOpen.current && raise(sheet.current), settlingMs);
  };
  const content = {
    onOpenAutoFocus(event: Event) {
      const focused = document.activeElement;
      opener.current = focused instanceof HTMLElement ? focused : null;
      // Focuses the dialog itself: screen readers then read its name first, and no phone keyboard opens.
      event.preventDefault();
      if (event.currentTarget instanceof HTMLElement) event.currentTarget.focus();
    },
    onCloseAutoFocus(event: Event) {
      // The library restores focus only to its own triggers, and this dialog is opened by state.
      event.preventDefault();
      // If the opener no longer exists, focus moves to the dialog or page beneath.
      if (opener.current?.isConnected) opener.current.focus();
      else {
        const beneath = document.querySelector<HTMLElement>('[role=dialog][data-state=open]');
        (beneath ?? document.querySelector('main'))?.focus({ preventScroll: true });
      }
    },
    onEscapeKeyDown(event: Event) {
      // An element inside may handle Escape itself: `data-own-escape`.
      const isOwn = event.target instanceof Element && event.target.closest('[data-own-escape]');
      if (isBusy || isOwn) event.preventDefault();
    },
    onPointerDownCapture({ timeStamp }: PointerEvent) {
      lastPressInside.current = timeStamp;
    },
    onClickCapture(event: MouseEvent) {
      // The second click of a double-click must not press what the first one brought, such as Cancel in place of Place Order.
      const clicked = event.target instanceof Element ? event.target.closest('button, a') : null;
      if (clicked && event.detail > 1 && clicked !== lastClicked.current) {
        event.preventDefault();
        event.stopPropagation();
      }
      lastClicked.current = clicked;
    },
    onInteractOutside(event: Event) {
      // A press on a toast above the dialog does not close the dialog.
      const isToast = event.target instanceof Element && event.target.closest('[data-messages]');
      // A double-click on a button may end outside, when its first click made the dialog smaller.
      const isDoubleClick = event.timeStamp - lastPressInside.current < doubleClickMs;
      if (isBusy || isToast || isDoubleClick) event.preventDefault();
    },
  };
  const inside = (
    <SurfaceContext value={{ shape, isBusy, setBusy }}>
      <CloseGuardOfDialog value={guard}>{children}</CloseGuardOfDialog>
    </SurfaceContext>
  );

  if (shape === 'dialog') {
    return (
      <Dialog.Root open={open} onOpenChange={close}>
        <Dialog.Portal>
          <Dialog.Overlay className="dialog-veil fixed inset-0 z-50 bg-dusk-950/55 motion-safe:backdrop-blur-[3px]" />
          <Dialog.Content
            {...content}
            className={`dialog-sheet fixed left-1/2 z-50 flex ${widths[size]} -translate-x-1/2 -translate-y-1/2 flex-col overflow-hidden rounded-2xl bg-paper text-ink shadow-xl outline-none`}
          >
            {inside}
          </Dialog.Content>
        </Dialog.Portal>
      </Dialog.Root>
    );
  }
  return (
    // Only the handle drags: a swipe through a long form must not close it.
    <Drawer.Root open={open} onOpenChange={close} dismissible={!isBusy} handleOnly>
      <Drawer.Portal>
        <Drawer.Overlay className="drawer-veil fixed inset-0 z-50 bg-dusk-950/55" />
        <Drawer.Content
          ref={sheet}
          {...content}
          className="drawer-sheet fixed inset-x-0 bottom-0 z-50 flex flex-col rounded-t-2xl bg-paper text-ink shadow-xl outline-none"
        >
          <Drawer.Handle className="mt-2.5! h-1.5! w-12! shrink-0 bg-line-strong! opacity-60!" />
          {inside}
        </Drawer.Content>
      </Drawer.Portal>
    </Drawer.Root>
  );
}

/** Maximum time in ms between the presses of a double-click, as Windows and macOS set it. */
const doubleClickMs = 500;
/** Time in ms after which a dialog that was asked to close counts as staying open. */
const settlingMs = 150;

/** Moves a drawer back up that was dragged down but stays open, for example to confirm unsaved changes. */
function raise(sheet: HTMLElement | null): void {
  if (!sheet) return;
  sheet.style.transition = '';
  sheet.style.transform = '';
  for (const veil of document.querySelectorAll<HTMLElement>('[data-vaul-overlay]')) {
    veil.style.transition = '';
    veil.style.opacity = '';
  }
}

/** Chosen on opening and fixed until the next one: rotating a phone must not reset a form. */
function useShape(open: boolean): Shape | null {
  const [shape, setShape] = useState<Shape | null>(null);
  const wasOpen = useRef(false);
  useEffect(() => {
    if (open && !wasOpen.current) setShape(window.matchMedia(wide).matches ? 'dialog' : 'drawer');
    wasOpen.current = open;
  }, [open]);
  return shape;
}

/** The layout of the dialog around this component, for parts whose order depends on it. */
export const useDialogShape = (): Shape => useContext(SurfaceContext).shape;

/** While true, the dialog around this component cannot be closed. */
export function useKeepOpen(isBusy: boolean): void {
  const { setBusy } = useContext(SurfaceContext);
  useEffect(() => {
    setBusy(isBusy);
    return () => setBusy(false);
  }, [isBusy, setBusy]);
}

interface DialogHeadingProps extends Omit<ComponentProps<'h2'>, 'title'> {
  title: ReactNode;
  description: ReactNode;
  /** On a phone the description is only for screen readers, as the page repeats it below. */
  isTerse?: boolean;
}

/** Names and describes the dialog, and closes it. */
export function DialogHeading({ title, description, isTerse = false, ...heading }: DialogHeadingProps) {
  const { isBusy } = useContext(SurfaceContext);
  return (
    <header className="flex shrink-0 items-start gap-3 px-5 pt-4 pb-3 md:px-7 md:pt-6 md:pb-4 low:pt-1! low:pb-1!">
      <div className="min-w-0 flex-1">
        <Dialog.Title tabIndex={-1} className="text-2xl low:text-xl outline-none" {...heading}>
          {title}
        </Dialog.Title>
        <Dialog.Description className={`mt-1 text-sm text-ink-soft ${isTerse ? 'max-md:sr-only' : ''}`}>
          {description}
        </Dialog.Description>
      </div>
      <Dialog.Close
        aria-label="Close"
        disabled={isBusy}
        className="-mt-1 -mr-2 grid size-11 shrink-0 place-items-center rounded-pill text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink disabled:cursor-not-allowed disabled:opacity-40"
      >
        <Icon name="close" />
      </Dialog.Close>
    </header>
  );
}

/** The scrolling part. */
export function DialogBody({ children }: { children: ReactNode }) {
  const { isBusy } = useContext(SurfaceContext);
  return (
    <div
      // While its fields are disabled, the body itself takes focus, so that the keyboard can scroll it.
      tabIndex={isBusy ? 0 : undefined}
      className="dialog-body min-h-0 flex-1 scroll-py-3 overflow-y-auto overscroll-contain px-5 pt-1 pb-6 md:px-7"
    >
      {children}
    </div>
  );
}

/** The part with the main action, always visible. */
export function DialogFooter({
  isSticky = false,
  children,
}: {
  /** Stays visible when the whole dialog scrolls, on a phone in landscape. */
  isSticky?: boolean;
  children: ReactNode;
}) {
  return (
    <footer
      data-sticky={isSticky || undefined}
      className="dialog-footer shrink-0 border-t border-line bg-card px-5 pt-3 pb-[max(0.75rem,env(safe-area-inset-bottom))] md:px-7 md:py-4"
    >
      {children}
    </footer>
  );
}
