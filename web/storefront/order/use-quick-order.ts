// The order form over a list: opened by a link with `data-order`, the slug of a drink. Until the page is alive, and where the code or
// the drink cannot be loaded, the link leads to the form as a page.
import { type ReactElement, useEffect, useState } from 'react';
import { useShop } from '../layout/use-shop.ts';

/** @returns the order form of the page with this path, once asked for */
export function useQuickOrder(pathname: string): ReactElement | null {
  const { config } = useShop();
  const [form, setForm] = useState<ReactElement | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the form
  useEffect(() => {
    const open = (event: MouseEvent) => {
      const link = (event.target as Element).closest<HTMLAnchorElement>('[data-order]');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      link.dataset.tapped = '';
      void import('./quick-order.tsx')
        .then(({ quickOrder }) => quickOrder(link, config).then(setForm))
        // Offline there is no page either; the layout says so.
        .catch(() => navigator.onLine && window.location.assign(link.href))
        .then(() => link.removeAttribute('data-tapped'));
    };
    document.addEventListener('click', open);
    return () => {
      document.removeEventListener('click', open);
      setForm(null);
    };
  }, [pathname, config]);
  return form;
}
