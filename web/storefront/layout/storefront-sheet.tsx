// The storefront's style sheet inline in the page, which saves a round trip before the first paint.
import { useEffect } from 'react';
import css from '../storefront.css?inline';

const id = 'storefront-sheet';

/** The element before the server fills it: 95 kB of text that React would read again for every page. */
export const emptySheet = `<style id="${id}"></style>`;
export const storefrontSheet = import.meta.env.SSR ? css : '';

// The browser takes it from the page's markup; it is read once, in case the page is rendered again.
const sheet = import.meta.env.SSR
  ? import.meta.env.DEV
    ? css
    : ''
  : (document.getElementById(id)?.textContent ?? '');

export function StorefrontSheet() {
  useEffect(() => {
    // Client-side navigations from a page without the inline style sheet load the file, as do changes in development.
    if (import.meta.env.DEV || !sheet) void import('../storefront.css');
  }, []);
  return <style id={id} suppressHydrationWarning dangerouslySetInnerHTML={{ __html: sheet }} />;
}
