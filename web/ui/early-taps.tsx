// Keeps the taps that came before the page could answer them, and answers them when it can.
import { useEffect } from 'react';

declare global {
  interface Window {
    /** Buttons in the order they were tapped; gone once the page listens by itself. */
    earlyTaps?: HTMLElement[] | undefined;
  }
}

// What a browser does by itself (links, forms, dialogs opened by a command, popovers) needs nobody's memory. A form whose button
// waits (`data-waits`) has something better to come; when that does not come, it is sent after all. React stops the propagation of clicks
// on what it has not hydrated yet: the listener is called before React's.
const listen =
  "earlyTaps=[];addEventListener('click',function(e){var t=window.earlyTaps,b=t&&e.target.closest&&e.target.closest('button');" +
  "if(!b||b.command||b.popoverTargetElement)return;var f=b.type=='submit'&&b.form;if(f){if(b.dataset.waits==null)return;e.preventDefault();" +
  'setTimeout(function(){window.earlyTaps&&f.submit()},1e4)}' +
  "t.push(b);b.dataset.tapped=''},true);" +
  // Room for what is only known on this device is kept before anything is painted.
  "try{if((localStorage.getItem('jani.orders')||'[]')!='[]')document.documentElement.dataset.orders=''}catch(e){}";

const whenIdle = (work: () => void) =>
  window.requestIdleCallback ? window.requestIdleCallback(work) : window.setTimeout(work, 200);

/** Runs them one by one, each after the changes of the previous one are rendered. */
async function answer(taps: HTMLElement[]) {
  for (const button of taps) {
    await new Promise((done) => window.setTimeout(done));
    delete button.dataset.tapped;
    if (button.isConnected) button.click();
  }
}

/** Lays out what is far below, one part at a time: all of it at once would hold up a slow phone for longer than a tap may wait. */
function layOutBelow() {
  const next = document.querySelector<HTMLElement>('.far-below:not([data-near])');
  if (next) {
    next.dataset.near = '';
    whenIdle(layOutBelow);
  } else delete document.documentElement.dataset.unpainted;
}

/** To be put before the buttons: a few bytes that run while the page is still read. Their hash is in the page's security policy. */
export function EarlyTaps() {
  useEffect(() => {
    const taps = window.earlyTaps ?? [];
    window.earlyTaps = undefined;
    void answer(taps);
    // The tab's icon is there by now; the page came without, for the sake of its first picture.
    document.querySelector('link[href="data:,"]')?.remove();
    // What is far below comes when whoever has just tapped has their answer. Who scrolls has it at once (see the boot script).
    window.setTimeout(() => whenIdle(layOutBelow), 1000);
  }, []);
  // It has run, and React keeps what the server wrote.
  return (
    <script
      suppressHydrationWarning
      dangerouslySetInnerHTML={{ __html: import.meta.env.SSR ? listen : '' }}
    />
  );
}
