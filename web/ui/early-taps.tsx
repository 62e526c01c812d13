// Keeps a tap on a marked button that came before the page could answer it.

declare global {
  interface Window {
    earlyTap?: EventTarget | null;
  }
}

const listen =
  "addEventListener('click',function(e){window.earlyTap=e.target.closest&&e.target.closest('[data-keep-tap]')});" +
  // Room for what is only known on this device is kept before anything is painted.
  "try{if((localStorage.getItem('jani.orders')||'[]')!='[]')document.documentElement.dataset.orders=''}catch(e){}";

/** To be put before the buttons: a few bytes that run while the page is still read. Their hash is in the page's security policy. */
export function EarlyTaps() {
  return <script dangerouslySetInnerHTML={{ __html: listen }} />;
}

/** Whether this button was tapped before anybody listened. To be asked once, when it comes alive. */
export function takeEarlyTap(button: HTMLButtonElement | null): boolean {
  const isTapped = button !== null && window.earlyTap === button;
  window.earlyTap = null;
  return isTapped;
}
