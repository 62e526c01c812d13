// The place where toasts appear: made once, outside the page's own tree, above every dialog.
import { type ReactNode, useLayoutEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { toast as sonner, Toaster } from 'sonner';
import { Icon } from './icons.tsx';

export interface Toast {
  title: string;
  text: string;
  kind?: 'success' | 'error' | 'info';
  /** Something to do about it. */
  action?: { label: string; run(): void };
  /** A newer message on the same topic takes the older one's place. */
  topic?: string;
  /** Below the text. The message then stays until `dismissToast` is called for its topic or its reader dismisses it. */
  content?: ReactNode;
  /** Called when a message with content ends. */
  onDismiss?(): void;
}

const host = document.createElement('div');
document.body.append(host);

/** Gap between toasts, and around them. */
const gap = 10;
const toTheEdge = { wide: 20, narrow: 12 };
/** As wide as a message is where it is not as wide as the screen. */
const width = 356;
const narrowest = 768;

type Place = 'top-center' | 'bottom-right';

const openDialog = () =>
  document.querySelector('[role=dialog][data-state=open], [role=alertdialog][data-state=open]');

/** Where a message covers nothing of use: beside a dialog or above it, which then makes room; on a phone under the header. */
function place(): Place {
  const dialog = openDialog();
  if (!dialog) return window.innerWidth < narrowest ? 'top-center' : 'bottom-right';
  const beside = (window.innerWidth - dialog.clientWidth) / 2;
  return beside >= width + 2 * toTheEdge.wide ? 'bottom-right' : 'top-center';
}

/** Tells the style sheet where messages at the top begin. */
function tellTop(): void {
  const header = openDialog() ? null : document.querySelector('header');
  const top = Math.max(toTheEdge.narrow, (header?.getBoundingClientRect().bottom ?? 0) + gap);
  document.documentElement.style.setProperty('--toast-top', `${top}px`);
}

/** Tells it how much of the top of the screen they take from a dialog. */
function tellRoom(): void {
  const messages = host.querySelectorAll<HTMLElement>(
    '[data-sonner-toast][data-y-position=top][data-visible=true]:not([data-removed=true])',
  );
  let room = 0;
  for (const message of messages) room += message.offsetHeight + gap;
  const { style } = document.documentElement;
  if (room > 0) style.setProperty('--toast-room', `${room + toTheEdge.narrow}px`);
  else style.removeProperty('--toast-room');
}

const around = (edge: number) => ({
  top: `var(--toast-top, ${toTheEdge.narrow}px)`,
  right: edge,
  bottom: edge,
  left: edge,
});

new MutationObserver(tellRoom).observe(host, {
  subtree: true,
  childList: true,
  attributeFilter: ['data-removed', 'data-visible', 'data-y-position', 'style'],
});

// Dialogs trap focus. Alt+T moves it to a toast, and it returns by itself.
const isHere = (target: EventTarget | null) => target instanceof Node && host.contains(target);
window.addEventListener(
  'focusout',
  (event) => {
    if (isHere(event.relatedTarget)) event.stopPropagation();
  },
  { capture: true },
);
host.addEventListener('focusin', (event) => event.stopPropagation());

let findPlace = () => {};

function Messages() {
  const [position, setPosition] = useState(place);
  // Before the first message, which comes as soon as this is on the page.
  useLayoutEffect(() => {
    findPlace = () => {
      const now = place();
      // Nothing that is being read jumps, unless it would cover a dialog.
      const isNothingShown = host.querySelector('[data-sonner-toast]') === null;
      if (!isNothingShown && !openDialog()) return;
      tellTop();
      if (isNothingShown || now === 'top-center') setPosition(now);
    };
    const follow = () => findPlace();
    // A dialog that opens under a message takes the focus.
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
      offset={around(toTheEdge.wide)}
      mobileOffset={around(toTheEdge.narrow)}
      containerAriaLabel="Messages"
      // An open dialog makes the page around it deaf to the pointer; a message stays dismissable.
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
  createRoot(host).render(
    <div ref={() => resolve()}>
      <Messages />
    </div>,
  );
});

const lastOn = new Map<string, string | number>();

/** Ends the one on this topic. */
export function endToast(topic: string): void {
  const shown = lastOn.get(topic);
  lastOn.delete(topic);
  if (shown !== undefined) sonner.dismiss(shown);
}

export function endAllToasts(): void {
  lastOn.clear();
  sonner.dismiss();
}

/** Shows one. */
export function raiseToast({
  title,
  text,
  kind = 'success',
  topic,
  action,
  content,
  onDismiss,
}: Toast): void {
  // The region must be in the page before its first message, or a screen reader does not notice it.
  void ready.then(() => {
    findPlace();
    const before = topic ? lastOn.get(topic) : undefined;
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
        duration: Number.POSITIVE_INFINITY,
        // In its place: dismissing the one before would report that its reader did so.
        ...(before !== undefined && { id: before }),
        onDismiss() {
          if (topic) lastOn.delete(topic);
          onDismiss?.();
        },
      }),
      ...(action && { action: { label: action.label, onClick: () => action.run() } }),
    });
    if (topic) lastOn.set(topic, id);
  });
}
