// Which stories a run has: the main ones, each at one size (`npm test`), or all of them (`npm run test:long`, or a file run by hand).

const everyStory = process.env.STORIES !== 'main';

/** Makes the `story` of what only a run of all stories has. */
export function inLongRun<Story>(story: Story): Story {
  return everyStory ? story : ignored;
}

/**
 * The cases of a story, such as its sizes of screens.
 * @param cases the first is the one that the main stories have
 */
export function mainCase<Case>(cases: readonly Case[]): readonly Case[] {
  return everyStory ? cases : cases.slice(0, 1);
}

/** Takes the place of a `story`, also of `story.concurrent.for(cases)`. */
// biome-ignore lint/suspicious/noExplicitAny: it accepts whatever the story that it replaces accepts
const ignored: any = new Proxy(() => ignored, { get: () => ignored });
