// The attacking process, separate from the measuring one.
import { setMaxListeners } from 'node:events';
import { constants, setPriority } from 'node:os';
import { attacks } from './attacks.ts';
import type { Target } from './target.ts';

export type AttackerMessage = { start: string; target: Target } | { stop: true };

// A real attacker has its own processor, so the shop and the measurement come first.
setPriority(constants.priority.PRIORITY_LOW);
const stop = new AbortController();
// Each connection of an attack listens to it.
setMaxListeners(0, stop.signal);

process.on('message', async (message: AttackerMessage) => {
  if ('stop' in message) return stop.abort();
  const attack = attacks.find(({ name }) => name === message.start);
  if (!attack) throw new Error(`there is no attack "${message.start}"`);
  const statuses = await attack.run(message.target, stop.signal);
  process.send?.(statuses, () => process.exit(0));
});
