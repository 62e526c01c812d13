// Sounds of notices, made by Web Audio. Browsers allow them to a page only once someone has pressed something on it.
import { useSyncExternalStore } from 'react';
import type { Volume } from './device-settings.ts';
import type { Sound } from './plan-notices.ts';

/** unknown: not asked yet. unsupported: the browser makes no sounds. blocked: it waits for a press. */
export type SoundState = 'unknown' | 'unsupported' | 'blocked' | 'ready';

const gains: Record<Volume, number> = { off: 0, quiet: 0.06, normal: 0.25, loud: 0.9 };
/** Notes in hertz and when they begin, in seconds. */
const melodies: Record<Sound, readonly [hertz: number, at: number][]> = {
  new: [
    [784, 0],
    [988, 0.14],
    [1319, 0.28],
  ],
  trouble: [
    [523, 0],
    [392, 0.2],
    [523, 0.4],
    [392, 0.6],
  ],
};
const noteSeconds = 0.35;
/** A browser that refuses leaves the request unanswered. */
const answerMs = 1000;
const presses = ['pointerup', 'keydown', 'click'] as const;

let context: AudioContext | null = null;
/** For browsers that do not report it themselves. */
let wasPressed = false;
let state: SoundState = 'unknown';
const listeners = new Set<() => void>();

function setState(next: SoundState): void {
  if (state === next) return;
  state = next;
  for (const listener of listeners) listener();
}

/** Browsers warn in their console of a context that is made before. */
const hasBeenPressed = (): boolean =>
  'userActivation' in navigator ? navigator.userActivation.hasBeenActive : wasPressed;

/** Whether sounds are allowed now; asks the browser. */
async function open(): Promise<AudioContext | null> {
  if (typeof AudioContext !== 'function') {
    setState('unsupported');
    return null;
  }
  if (!context && !hasBeenPressed()) {
    setState('blocked');
    return null;
  }
  context ??= new AudioContext();
  if (context.state !== 'running') {
    const refused = new Promise<void>((done) => setTimeout(done, answerMs));
    await Promise.race([context.resume().catch(() => {}), refused]);
  }
  const isRunning = (context.state as string) === 'running';
  setState(isRunning ? 'ready' : 'blocked');
  return isRunning ? context : null;
}

function onPress(): void {
  wasPressed = true;
  if (state === 'ready') return;
  void open();
}

/**
 * Watches whether sounds are allowed, and gets the permission with the next press.
 * @returns a function that stops it and releases the audio device
 */
export function watchSounds(): () => void {
  void open();
  for (const press of presses) window.addEventListener(press, onPress, true);
  return () => {
    for (const press of presses) window.removeEventListener(press, onPress, true);
    void context?.close().catch(() => {});
    context = null;
    setState('unknown');
  };
}

/** Makes a sound, unless the browser refuses, which `useSoundState` shows then. */
export async function playSound(sound: Sound, volume: Volume): Promise<void> {
  const audio = volume === 'off' ? null : await open();
  if (!audio) return;
  const now = audio.currentTime;
  for (const [hertz, at] of melodies[sound]) {
    const [note, envelope] = [audio.createOscillator(), audio.createGain()];
    note.type = 'triangle';
    note.frequency.value = hertz;
    // Without a slope, a note begins and ends with a click.
    envelope.gain.setValueAtTime(0, now + at);
    envelope.gain.linearRampToValueAtTime(gains[volume], now + at + 0.02);
    envelope.gain.exponentialRampToValueAtTime(0.001, now + at + noteSeconds);
    note.connect(envelope).connect(audio.destination);
    note.start(now + at);
    note.stop(now + at + noteSeconds);
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useSoundState = (): SoundState =>
  useSyncExternalStore(
    subscribe,
    () => state,
    () => 'unknown',
  );
