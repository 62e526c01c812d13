// The storefront's style sheet inline in the page, which saves a round trip before the first paint.
import { useEffect } from 'react';
import { LayerlessSheet } from '../../ui/dialog/layerless-sheet.tsx';
import css from '../storefront.css?inline';
import file from '../storefront.css?url';

const id = 'storefront-sheet';

const element = (text: string) => `<style id="${id}" data-file="${file}">${text}</style>`;

/**
 * Adds the style sheet to a rendered page. React leaves its element empty on the server, because it would read 95 kB again for
 * every page.
 */
export const addStyleSheet = (html: string): string => html.replace(element(''), () => element(css));

// The browser takes it from the page's markup; it is read once, in case the page is rendered again.
const sheet = import.meta.env.SSR ? '' : (document.getElementById(id)?.textContent ?? '');

export function StorefrontSheet() {
  useEffect(() => {
    // Client-side navigations from a page without the inline style sheet load the file, as do changes in development.
    if (import.meta.env.DEV || !sheet) void import('../storefront.css');
  }, []);
  return (
    <>
      <style id={id} data-file={file} suppressHydrationWarning dangerouslySetInnerHTML={{ __html: sheet }} />
      <LayerlessSheet />
    </>
  );
}
