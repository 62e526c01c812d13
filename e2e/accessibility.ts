// What axe finds wrong with a page as it is now.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

const source = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What lies behind an open dialog, as the library marks it that takes it out of everybody's reach. It is looked at where no
 * dialog is open: here it would cost more than the dialog itself.
 */
const behindDialog = '[data-aria-hidden="true"]';

interface Axe {
  run(
    context: { exclude: string[] },
    options: object,
  ): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
}

/**
 * Fails the test when axe finds anything.
 * @param tags narrows or widens what it looks for; by default everything but the size of targets
 */
export async function expectAccessible(
  page: Page,
  what = page.url(),
  tags: readonly string[] | null = null,
): Promise<void> {
  // Once a page: a second copy of axe would not know that the first is at work.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(await source);
  const found = await page.evaluate(
    async ([runOnly, exclude]) => {
      const { axe } = window as unknown as { axe: Axe };
      const { violations } = await axe.run(
        { exclude: [exclude] },
        // Nobody reads what it finds right, nor where exactly it looked.
        { resultTypes: ['violations'], selectors: false, ...(runOnly ? { runOnly } : {}) },
      );
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    },
    [tags, behindDialog] as const,
  );
  expect(found, what).toEqual([]);
}
