// A story: a browser test with its own visitors, whose console and messages must stay clean.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type OpenShop, openShop } from '../scripts/tests/open-shop.ts';
import { openBrowser, type Visitor, visit } from './browser.ts';
import { technicalMessages } from './technical-messages.ts';

/** The shop and the browser of a file, while its stories run. */
export let shop: OpenShop;
export let browser: Browser;

/**
 * Opens a shop and a browser before the file's stories and closes them afterwards. The server's log must have no warning
 * and no error.
 * @param environment further settings of the shop, which makes no backups by itself
 */
export function openShopForStories(environment?: Record<string, string>): void {
  beforeAll(async () => {
    [shop, browser] = await Promise.all([openShop({ BACKUPS: 'off', ...environment }), openBrowser()]);
  });
  afterAll(async () => {
    await browser.close();
    const problems = shop.problems();
    await shop.close();
    expect(problems, "the server's log").toEqual([]);
  });
}

type VisitOptions = Parameters<typeof visit>[1];

/** Creates a `story` function whose visitors have these options by default. */
export function storyWith(defaults: VisitOptions) {
  return test.extend<{ newVisitor: (options?: VisitOptions) => Promise<Visitor> }>({
    newVisitor: async ({ task }, use) => {
      const visitors: Visitor[] = [];
      await use(async (options) => {
        const visitor = await visit(browser, { ...defaults, ...options });
        visitors.push(visitor);
        return visitor;
      });
      const consoleErrors = visitors.flatMap((visitor) => visitor.consoleErrors);
      const messages = visitors.flatMap((visitor) => visitor.messages);
      await Promise.all(visitors.map((visitor) => visitor.close()));
      expect(consoleErrors, `the browser's console after "${task.name}"`).toEqual([]);
      expect(technicalMessages(messages), `toasts and alerts of "${task.name}"`).toEqual([]);
    },
  });
}

export const story = storyWith({});
