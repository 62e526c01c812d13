// Keeps the taps that came before the page could answer them, and answers them when it can.
import { useEffect } from 'react';

declare global {
  interface Window {
    /** Buttons in the order they were tapped; gone once the page listens by itself. */
    earlyTaps?: HTMLElement[] | undefined;
  }
}

// What a browser does by itself (links, forms, dialogs opened by a command) needs nobody's memory.
const listen =
  "earlyTaps=[];addEventListener('click',function(e){var t=window.earlyTaps,b=t&&e.target.closest&&e.target.closest('button');" +
  "if(b&&!b.command&&!(b.form&&b.type=='submit')){t.push(b);b.dataset.tapped=''}});" +
  // Room for what is only known on this device is kept before anything is painted.
  "try{if((localStorage.getItem('jani.orders')||'[]')!='[]')document.documentElement.dataset.orders=''}catch(e){}";

/** To be put before the buttons: a few bytes that run while the page is still read. Their hash is in the page's security policy. */
export function EarlyTaps() {
  useEffect(() => {
    const taps = window.earlyTaps ?? [];
    window.earlyTaps = undefined;
    // When the rest of the page has come alive too.
    queueMicrotask(() => {
      for (const button of taps) {
        delete button.dataset.tapped;
        if (button.isConnected) button.click();
      }
    });
  }, []);
  return <script dangerouslySetInnerHTML={{ __html: listen }} />;
}
