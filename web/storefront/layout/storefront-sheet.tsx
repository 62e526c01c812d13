// The storefront's style sheet inside the page: one journey less before anything can be painted.
import { useEffect } from 'react';
import css from '../storefront.css?inline';

const id = 'storefront-sheet';

// The browser has it in the page's markup; it is read once, in case the page is rendered again.
const sheet = import.meta.env.SSR ? css : (document.getElementById(id)?.textContent ?? '');

export function StorefrontSheet() {
  useEffect(() => {
    // Who came from a page without it needs the file; so do changes of it in development.
    if (import.meta.env.DEV || !sheet) void import('../storefront.css');
  }, []);
  return <style id={id} suppressHydrationWarning dangerouslySetInnerHTML={{ __html: sheet }} />;
}
