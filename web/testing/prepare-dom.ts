// What the screens need from a browser and happy-dom lacks.
import { configure } from '@testing-library/dom';
import { inject } from 'vitest';
import { WebSocket } from 'ws';
import { rememberStyles } from './computed-style.ts';

const { url, publishable } = inject('shop');
const { happyDOM } = window as unknown as { happyDOM: { setURL(url: string): void } };
happyDOM.setURL(`${url}/admin`);
Object.assign(globalThis, { WebSocket });

// happy-dom has no layout: the content is as wide as the window, which decides between tables and compact rows.
Object.defineProperty(HTMLElement.prototype, 'clientWidth', {
  configurable: true,
  get: () => window.innerWidth,
});

rememberStyles(window);

// The head of every staff page contains the origin of the services.
const services = document.createElement('meta');
services.name = 'shop-services';
services.content = JSON.stringify({ url: '', key: publishable });
document.head.append(services);

// Disables animations, so that no test waits for one.
const still = document.createElement('style');
still.textContent = '* { animation-name: none !important }';
document.head.append(still);

configure({
  asyncUtilTimeout: 40_000,
  // Without the whole document, which Testing Library appends, and with the page's own messages.
  getElementError(message) {
    const text = (message ?? 'not found').slice(0, 400);
    // Searches that wait pass the message of the last attempt on.
    if (text.includes(' at http')) return new Error(message ?? text);
    const said = Array.from(
      document.querySelectorAll('[data-sonner-toast], [role=alert], [role=dialog] h2'),
      (element) => element.textContent?.trim(),
    );
    return new Error(`${text} at ${window.location.href}, where it says: ${said.join(' | ').slice(0, 300)}`);
  },
});
