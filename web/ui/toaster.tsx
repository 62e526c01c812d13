// The place where toasts appear: made once, outside the page's own tree, above every dialog.
import { createRoot } from 'react-dom/client';
import { toast as sonner, Toaster } from 'sonner';
import { Icon } from './icons.tsx';
import type { Toast } from './toasts.tsx';

const host = document.createElement('div');
document.body.append(host);

// Where a thumb, a drawer and a dialog's buttons are not: at the top, or in the corner where that is beside any dialog.
const isWide = window.matchMedia('(min-width: 1360px)').matches;

const ready = new Promise<void>((resolve) => {
  createRoot(host).render(
    <div ref={() => resolve()}>
      <Toaster
        position={isWide ? 'bottom-right' : 'top-center'}
        duration={4000}
        visibleToasts={3}
        expand
        gap={10}
        offset={20}
        mobileOffset={12}
        containerAriaLabel="Messages"
        // An open dialog makes the page around it deaf to the pointer; a message stays dismissable.
        style={{ pointerEvents: 'auto', fontFamily: 'inherit' }}
        toastOptions={{
          unstyled: true,
          classNames: {
            toast:
              'pointer-events-auto flex w-full items-start gap-3 rounded-lg border px-4 py-3.5 shadow-lg ' +
              'data-[type=success]:border-leaf-300 data-[type=success]:bg-card data-[type=success]:[&_[data-icon]]:bg-success-soft data-[type=success]:[&_[data-icon]]:text-success ' +
              'data-[type=info]:border-dusk-200 data-[type=info]:bg-card data-[type=info]:[&_[data-icon]]:bg-dusk-100 data-[type=info]:[&_[data-icon]]:text-dusk-700 ' +
              'data-[type=error]:border-danger/40 data-[type=error]:bg-card data-[type=error]:[&_[data-icon]]:bg-danger-soft data-[type=error]:[&_[data-icon]]:text-danger',
            icon: 'mt-0.5 grid size-7 shrink-0 place-items-center rounded-pill',
            content: 'min-w-0 flex-1',
            title: 'font-display text-base leading-snug font-bold text-ink',
            description: 'mt-0.5 text-sm text-ink-soft',
            actionButton:
              'min-h-9 shrink-0 self-center rounded-pill bg-paper-deep px-3.5 text-sm font-bold text-ink hover:bg-line',
          },
        }}
        icons={{
          success: <Icon name="check" className="size-4" />,
          error: <Icon name="close" className="size-4" />,
          info: <Icon name="arrow" className="size-4" />,
        }}
      />
    </div>,
  );
});

const lastOn = new Map<string, string | number>();

/** Shows one. */
export function raiseToast({ title, text, kind = 'success', topic, action }: Toast): void {
  // The region must be in the page before its first message, or a screen reader does not notice it.
  void ready.then(() => {
    const before = topic && lastOn.get(topic);
    if (before) sonner.dismiss(before);
    const id = sonner[kind](title, {
      description: text,
      ...(action && { action: { label: action.label, onClick: () => action.run() } }),
    });
    if (topic) lastOn.set(topic, id);
  });
}
