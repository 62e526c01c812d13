// Selects stories by STORIES: `main`, the main stories, each at one screen size (`npm test`); `each`, every story once (CI); otherwise every
// story at every size (`npm run test:long`, or a single file).
import { desktop, phone } from './browser.ts';

const selection = process.env.STORIES;

/** Returns a `story` that runs only when all stories run. */
export function inLongRun<Story>(story: Story): Story {
  return selection === 'main' ? ignored : story;
}

/**
 * The cases of a story, such as screen sizes where the layout is its subject.
 * @param cases the first one is also part of the main stories
 */
export function mainCase<Case>(cases: readonly Case[]): readonly Case[] {
  return selection === 'main' ? cases.slice(0, 1) : cases;
}

/**
 * The screen sizes of a story whose steps are the same at each.
 * @param sizes the first one is that of most of its users, and the only one outside `npm run test:long`
 */
export function atSizes<Size>(sizes: readonly Size[]): readonly Size[] {
  return selection === 'main' || selection === 'each' ? sizes.slice(0, 1) : sizes;
}

/** The sizes of what is mostly used on a phone, with their names. */
export const phoneFirst = atSizes([
  ['on a phone', phone],
  ['on a desktop', desktop],
] as const);

/** The sizes of what is mostly used at a desktop, with their names. */
export const desktopFirst = atSizes([
  ['on a desktop', desktop],
  ['on a phone', phone],
] as const);

/** Replaces a `story` and does nothing; also `story.concurrent.for(cases)`. */
// biome-ignore lint/suspicious/noExplicitAny: it accepts the same arguments as the replaced story
const ignored: any = new Proxy(() => ignored, { get: () => ignored });
