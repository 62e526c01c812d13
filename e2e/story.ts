// A story: a browser test with its own visitors, whose console and messages must stay clean.
import type { Browser } from 'playwright-core';
import { expect, test } from 'vitest';
import type { OpenShop } from '../scripts/open-shop.ts';
import { type Visitor, visit } from './browser.ts';
import { technicalMessages } from './technical-messages.ts';

type VisitOptions = Parameters<typeof visit>[1];

/**
 * Creates the `story` function of a file.
 * @param browser returns the file's browser once it is open
 * @param defaults default options of every visitor
 */
export function storyIn(browser: () => Browser, defaults: VisitOptions = {}) {
  return test.extend<{ newVisitor: (options?: VisitOptions) => Promise<Visitor> }>({
    newVisitor: async ({ task }, use) => {
      const visitors: Visitor[] = [];
      await use(async (options) => {
        const visitor = await visit(browser(), { ...defaults, ...options });
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

/** Closes a file's browser and shop. The server's log must have no warning and no error. */
export async function closeCleanly(shop: OpenShop, browser: Browser): Promise<void> {
  await browser.close();
  const problems = shop.problems();
  await shop.close();
  expect(problems, "the server's log").toEqual([]);
}
