// Brings a page to life.
import { startTransition } from 'react';
import { hydrateRoot } from 'react-dom/client';
import { HydratedRouter } from 'react-router/dom';

// In a task of its own: a phone has just evaluated the scripts, and a tap would wait for both. A message, because browsers hold the
// timers of a page in the background back.
const next = new MessageChannel();
next.port1.onmessage = () => startTransition(() => void hydrateRoot(document, <HydratedRouter />));
next.port2.postMessage(0);
