// The storefront's style sheet inline in the page, which saves a round trip before the first paint.
import { useEffect } from 'react';
import css from '../storefront.css?inline';

const id = 'storefront-sheet';

// The browser takes it from the page's markup; it is read once, in case the page is rendered again.
const sheet = import.meta.env.SSR ? css : (document.getElementById(id)?.textContent ?? '');

export function StorefrontSheet() {
  useEffect(() => {
    // Client-side navigations from a page without the inline style sheet load the file, as do changes in development.
    if (import.meta.env.DEV || !sheet) void import('../storefront.css');
  }, []);
  return <style id={id} suppressHydrationWarning dangerouslySetInnerHTML={{ __html: sheet }} />;
}
