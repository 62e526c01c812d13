// The region of the toasts, mounted once outside the page's React tree, above every dialog.
import { type ReactNode, useLayoutEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { toast as sonner, Toaster } from 'sonner';
import { Icon } from '../icons.tsx';

export interface Toast {
  title: string;
  text: string;
  kind?: 'success' | 'error' | 'info';
  /** A button of the toast. */
  action?: { label: string; run(): void };
  /** A newer toast with the same topic replaces the older one. */
  topic?: string;
  /** Below the text. The toast then stays until `dismissToast` is called for its topic or the user dismisses it. */
  content?: ReactNode;
  /** How long a toast with content stays. Default: until then. */
  staysMs?: number;
  /** Called when a toast with content is dismissed. */
  onDismiss?(): void;
}

/** Holds all messages. Outside of the page, so that no dialog covers or disables it. */
const host = document.createElement('div');
host.dataset.messages = '';
const toasts = document.createElement('div');
/** For messages of a screen that stay as long as it wants. */
export const ownMessages = document.createElement('div');
host.append(toasts, ownMessages);
document.body.append(host);

/** Gap between toasts, and to the edges, in px. */
const gap = 10;
const edgeGap = { wide: 20, narrow: 12 };
/** Width of a toast on large screens, in px. */
const width = 356;
const smallestWideScreen = 768;

type Position = 'top-center' | 'bottom-right';

const openDialog = () =>
  document.querySelector('[role=dialog][data-state=open], [role=alertdialog][data-state=open]');

/** Position that covers least: beside or above a dialog, which then makes room; on a phone below the header. */
function choosePosition(): Position {
  const dialog = openDialog();
  if (!dialog) return window.innerWidth < smallestWideScreen ? 'top-center' : 'bottom-right';
  const beside = (window.innerWidth - dialog.clientWidth) / 2;
  return beside >= width + 2 * edgeGap.wide ? 'bottom-right' : 'top-center';
}

/** Sets where toasts at the top begin, for the style sheet: below a header, or over one that is free for messages. */
function setToastTop(): void {
  const isFree = document.querySelector('[data-undo-place]') && !host.querySelector('[data-bar]');
  const header = openDialog() || isFree ? null : document.querySelector('header');
  const top = Math.max(isFree ? 4 : edgeGap.narrow, (header?.getBoundingClientRect().bottom ?? 0) + gap);
  document.documentElement.style.setProperty('--toast-top', `${top}px`);
}

/** Sets the height that toasts at the top take from a dialog, for the style sheet. */
function setToastRoom(): void {
  const messages = host.querySelectorAll<HTMLElement>(
    '[data-bar], [data-sonner-toast][data-y-position=top][data-visible=true]:not([data-removed=true])',
  );
  let room = 0;
  for (const message of messages) room += message.offsetHeight + gap;
  const { style } = document.documentElement;
  if (room > 0) style.setProperty('--toast-room', `${room + edgeGap.narrow}px`);
  else style.removeProperty('--toast-room');
}

/** Scrolls what shows a focus ring out from under the toasts (WCAG 2.4.11). Dialogs make room themselves. */
function uncoverFocus(): void {
  const focused = document.querySelector(':focus-visible');
  const toasts = host.querySelectorAll<HTMLElement>(
    '[data-sonner-toast][data-visible=true]:not([data-removed=true])',
  );
  const [first] = toasts;
  if (!first || !focused || host.contains(focused) || openDialog()) return;
  const { left, right, top, bottom, height } = focused.getBoundingClientRect();
  // A screen as a whole is focused after navigation.
  if (height > window.innerHeight / 2) return;
  const beside = first.getBoundingClientRect();
  if (right <= beside.left || left >= beside.right) return;
  // Toasts slide in, so their height counts and not their place.
  let room = 0;
  for (const toast of toasts) room += toast.offsetHeight + gap;
  if (first.dataset.yPosition === 'bottom') {
    const free = window.innerHeight - edgeGap.wide - room;
    if (bottom > free) window.scrollBy(0, bottom - free);
  } else {
    const toastBottom =
      Number.parseFloat(document.documentElement.style.getPropertyValue('--toast-top')) + room;
    if (top < toastBottom && bottom > toastBottom - room) window.scrollBy(0, top - toastBottom);
  }
}

/** Scrolls a focused field and its message back into view when its dialog has made room for a toast. */
function showFocusInDialog({ propertyName, target }: TransitionEvent): void {
  const focused = document.activeElement;
  const isSheet = target instanceof Element && target.matches('.dialog-sheet, .drawer-sheet');
  if (propertyName !== 'max-height' || !isSheet || !focused || focused === target) return;
  if (!target.contains(focused)) return;
  // Not when the toast ends: the customer may have scrolled on.
  if (!document.documentElement.style.getPropertyValue('--toast-room')) return;
  const descriptions = focused.getAttribute('aria-describedby')?.split(' ') ?? [];
  for (const id of descriptions) document.getElementById(id)?.scrollIntoView({ block: 'nearest' });
  // Last, because the field comes first where both do not fit.
  focused.scrollIntoView({ block: 'nearest' });
}

document.addEventListener('transitionend', showFocusInDialog);

const around = (edge: number) => ({
  top: `var(--toast-top, ${edgeGap.narrow}px)`,
  right: edge,
  bottom: edge,
  left: edge,
});

new MutationObserver(() => {
  setToastRoom();
  uncoverFocus();
}).observe(host, {
  subtree: true,
  childList: true,
  attributeFilter: ['data-removed', 'data-visible', 'data-y-position', 'style'],
});

// Dialogs trap focus. Alt+T moves it to a toast, and Sonner returns it.
const isInToaster = (target: EventTarget | null) => target instanceof Node && host.contains(target);
window.addEventListener(
  'focusout',
  (event) => {
    if (isInToaster(event.relatedTarget)) event.stopPropagation();
  },
  { capture: true },
);
host.addEventListener('focusin', (event) => event.stopPropagation());

let updatePosition = () => {};

function Messages() {
  const [position, setPosition] = useState(choosePosition);
  // A layout effect: the first toast is shown as soon as this component is mounted.
  useLayoutEffect(() => {
    updatePosition = () => {
      const now = choosePosition();
      // A visible toast does not move, unless it would cover a dialog.
      const isEmpty = host.querySelector('[data-sonner-toast]') === null;
      if (!isEmpty && !openDialog()) return;
      setToastTop();
      if (isEmpty || now === 'top-center') setPosition(now);
    };
    const follow = () => {
      updatePosition();
      uncoverFocus();
    };
    // A dialog that opens while a toast is shown moves the focus.
    document.addEventListener('focusin', follow);
    return () => document.removeEventListener('focusin', follow);
  }, []);
  return (
    <Toaster
      position={position}
      duration={4000}
      visibleToasts={3}
      expand
      closeButton
      gap={gap}
      offset={around(edgeGap.wide)}
      mobileOffset={around(edgeGap.narrow)}
      containerAriaLabel="Messages"
      // An open dialog disables pointer events outside of it; toasts stay dismissable.
      style={{ pointerEvents: 'auto', fontFamily: 'inherit' }}
      toastOptions={{
        unstyled: true,
        closeButtonAriaLabel: 'Dismiss',
        classNames: {
          toast:
            'pointer-events-auto flex w-full items-start gap-3 rounded-lg border px-4 py-3.5 shadow-lg max-[20rem]:px-3 ' +
            'data-[type=success]:border-leaf-300 data-[type=success]:bg-card data-[type=success]:[&_[data-icon]]:bg-success-soft data-[type=success]:[&_[data-icon]]:text-success ' +
            'data-[type=info]:border-dusk-200 data-[type=info]:bg-card data-[type=info]:[&_[data-icon]]:bg-dusk-100 data-[type=info]:[&_[data-icon]]:text-dusk-700 ' +
            'data-[type=error]:border-danger/40 data-[type=error]:bg-card data-[type=error]:[&_[data-icon]]:bg-danger-soft data-[type=error]:[&_[data-icon]]:text-danger',
          icon: 'mt-0.5 grid size-7 shrink-0 place-items-center rounded-pill max-[20rem]:hidden',
          content: 'min-w-0 flex-1',
          title: 'font-display text-base leading-snug font-bold text-ink',
          description: 'mt-0.5 text-sm text-ink-soft',
          closeButton:
            'order-last -my-2 -mr-2.5 grid size-11 shrink-0 place-items-center rounded-pill text-ink-soft hover:bg-paper-deep hover:text-ink',
          actionButton:
            'min-h-9 shrink-0 self-center rounded-pill bg-paper-deep px-3.5 text-sm font-bold text-ink hover:bg-line',
        },
      }}
      icons={{
        success: <Icon name="check" className="size-4" />,
        error: <Icon name="close" className="size-4" />,
        info: <Icon name="arrow" className="size-4" />,
        close: <Icon name="close" className="size-5" />,
      }}
    />
  );
}

const ready = new Promise<void>((resolve) => {
  createRoot(toasts).render(
    <div ref={() => resolve()}>
      <Messages />
    </div>,
  );
});

const lastByTopic = new Map<string, string | number>();

/** Dismisses the toast of a topic. */
export function endToast(topic: string): void {
  const lastToast = lastByTopic.get(topic);
  lastByTopic.delete(topic);
  if (lastToast !== undefined) sonner.dismiss(lastToast);
}

export function endAllToasts(): void {
  lastByTopic.clear();
  sonner.dismiss();
}

export function raiseToast({
  title,
  text,
  kind = 'success',
  topic,
  action,
  content,
  staysMs = Number.POSITIVE_INFINITY,
  onDismiss,
}: Toast): void {
  // The live region must be in the page before its first message, or screen readers do not announce it.
  void ready.then(() => {
    updatePosition();
    const before = topic ? lastByTopic.get(topic) : undefined;
    if (before !== undefined && !content) sonner.dismiss(before);
    const id = sonner[kind](title, {
      description: content ? (
        <>
          {text}
          {content}
        </>
      ) : (
        text
      ),
      ...(content && {
        duration: staysMs,
        // Updates the toast in place: dismissing the previous one would call its `onDismiss`.
        ...(before !== undefined && { id: before }),
        onDismiss() {
          if (topic) lastByTopic.delete(topic);
          onDismiss?.();
        },
      }),
      ...(action && { action: { label: action.label, onClick: () => action.run() } }),
    });
    if (topic) lastByTopic.set(topic, id);
  });
}
