// Queues taps that come before hydration, and replays them afterwards.
import { useEffect } from 'react';

declare global {
  interface Window {
    /** Buttons in the order they were tapped; undefined after hydration. */
    earlyTaps?: HTMLElement[] | undefined;
    /** The scripts cannot start: forms are submitted natively from now on, those that wait at once. */
    stopWaiting?: () => void;
    /** Set by an inline script of the server (`server/pages/gate-scripts.ts`). */
    isBelowFloor?: boolean;
  }
}

// Native behaviour (links, forms, dialogs opened by a command, popovers) works without this. A form whose submit
// button has `data-waits` is held back for its dialog, and submitted natively if hydration takes too long or a script fails. React
// stops the propagation of clicks on elements that are not hydrated yet, so this listener captures them before React.
// Does nothing in a browser below the floor (`server/pages/gate-scripts.ts`), where no other script follows.
const script =
  "if(!window.isBelowFloor){earlyTaps=[];addEventListener('click',function(e){var t=window.earlyTaps,b=t&&e.target.closest&&e.target.closest('button');" +
  "if(!b||b.command||b.popoverTargetElement)return;var f=b.type=='submit'&&b.form;if(f){if(b.dataset.waits==null)return;e.preventDefault();" +
  'setTimeout(function(){window.earlyTaps&&f.submit()},1e4)}' +
  "t.push(b);b.dataset.tapped=''},true);" +
  "stopWaiting=function(){var t=window.earlyTaps;earlyTaps=undefined;delete document.documentElement.dataset.unpainted;(t||[]).forEach(function(b){delete b.dataset.tapped;b.type=='submit'&&b.form&&b.form.submit()})};" +
  "addEventListener('error',function(e){window.earlyTaps&&e.message&&stopWaiting()});addEventListener('unhandledrejection',function(){window.earlyTaps&&stopWaiting()});" +
  // Reserves space for content that depends on this device's storage before the first paint.
  "try{if((localStorage.getItem('jani.orders')||'[]')!='[]')document.documentElement.dataset.orders=''}catch(e){}}";

const whenIdle = (work: () => void) =>
  window.requestIdleCallback ? window.requestIdleCallback(work) : window.setTimeout(work, 200);

/** Clicks the buttons one by one, each after the changes of the previous click are rendered. */
async function replay(taps: HTMLElement[]) {
  for (const button of taps) {
    await new Promise((done) => window.setTimeout(done));
    delete button.dataset.tapped;
    if (button.isConnected) button.click();
  }
}

/**
 * Lays out the parts far below the first screen one by one: all at once would block a slow phone longer than a tap
 * may wait.
 */
function layOutNext() {
  const next = document.querySelector<HTMLElement>('.far-below:not([data-near])');
  if (next) {
    next.dataset.near = '';
    whenIdle(layOutNext);
  } else delete document.documentElement.dataset.unpainted;
}

/**
 * Holds the images of parts far below until a part is less than half a screen away: a browser would load lazy images from two or three
 * screens away, and most visitors of a first page scroll less far.
 */
function holdFarImages() {
  const observer = new IntersectionObserver(
    (parts) => {
      for (const { target, isIntersecting } of parts) {
        target.toggleAttribute('data-far', !isIntersecting);
        if (isIntersecting) observer.unobserve(target);
      }
    },
    { rootMargin: '50%' },
  );
  for (const part of document.querySelectorAll('.far-below')) {
    // At once: a slow device may first lay the part out, and then answer where it is.
    part.toggleAttribute('data-far', true);
    observer.observe(part);
  }
  return () => observer.disconnect();
}

/**
 * Render it before all buttons: the inline script runs while the document is still being parsed. The content security
 * policy contains its hash.
 */
export function EarlyTaps() {
  useEffect(() => {
    const taps = window.earlyTaps ?? [];
    window.earlyTaps = undefined;
    void replay(taps);
    // The server starts the document with an empty icon, so that the real one does not delay the first image.
    document.querySelector('link[href="data:,"]')?.remove();
    // Leaves the main thread to replayed taps first. On scroll the boot script lays the parts out at once.
    window.setTimeout(() => whenIdle(layOutNext), 1000);
    return holdFarImages();
  }, []);
  // The script has already run, and React keeps the server's markup.
  return (
    <script
      suppressHydrationWarning
      dangerouslySetInnerHTML={{ __html: import.meta.env.SSR ? script : '' }}
    />
  );
}
