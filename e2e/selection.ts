// Selects stories: the main ones, each at one screen size (`npm test`), or all (`npm run test:long`, or a single file).

const everyStory = process.env.STORIES !== 'main';

/** Returns a `story` that runs only when all stories run. */
export function inLongRun<Story>(story: Story): Story {
  return everyStory ? story : ignored;
}

/**
 * The cases of a story, such as screen sizes.
 * @param cases the first one is also part of the main stories
 */
export function mainCase<Case>(cases: readonly Case[]): readonly Case[] {
  return everyStory ? cases : cases.slice(0, 1);
}

/** Replaces a `story` and does nothing; also `story.concurrent.for(cases)`. */
// biome-ignore lint/suspicious/noExplicitAny: it accepts the same arguments as the replaced story
const ignored: any = new Proxy(() => ignored, { get: () => ignored });
