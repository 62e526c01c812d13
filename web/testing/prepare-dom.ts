// What the screens need of a browser and the DOM of the component tests lacks.
import { configure } from '@testing-library/dom';
import { inject } from 'vitest';
import { WebSocket } from 'ws';

const { url, publishable } = inject('shop');
const { happyDOM } = window as unknown as { happyDOM: { setURL(url: string): void } };
happyDOM.setURL(`${url}/admin`);
Object.assign(globalThis, { WebSocket });

// There is no layout: the content is as wide as the window, which decides between tables and compact rows.
Object.defineProperty(HTMLElement.prototype, 'clientWidth', {
  configurable: true,
  get: () => window.innerWidth,
});

// Every staff page names the services in its head.
const services = document.createElement('meta');
services.name = 'shop-services';
services.content = JSON.stringify({ url: '', key: publishable });
document.head.append(services);

// Nothing moves, so that nothing waits for the end of an animation.
const still = document.createElement('style');
still.textContent = '* { animation-name: none !important }';
document.head.append(still);

configure({
  asyncUtilTimeout: 20_000,
  // The beginning of the message says what was not found; the whole document follows it.
  getElementError: (message) => new Error((message ?? 'not found').slice(0, 400)),
});
