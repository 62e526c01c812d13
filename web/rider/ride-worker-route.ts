// /ride-worker.js. Its URL allows the scope /ride/, which goes before the scope of the storefront's service worker.
import { runRideWorker } from './ride-worker.ts';

export const loader = (): Response =>
  new Response(`(${runRideWorker})()`, {
    headers: {
      'Content-Type': 'text/javascript; charset=utf-8',
      // As of /sw.js: a cached one would keep browsers on its version.
      'Cache-Control': 'no-cache',
    },
  });
