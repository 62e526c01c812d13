// Runs axe on the current state of a page.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

const source = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Selects everything behind an open dialog. Other checks cover it with no dialog open:
 * here it would take longer than the dialog itself.
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
 * @param tags axe's rule tags. Default: all rules except target size
 */
export async function expectAccessible(
  page: Page,
  what = page.url(),
  tags: readonly string[] | null = null,
): Promise<void> {
  // Once per page: a second copy of axe would not detect that the first is running.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(await source);
  const found = await page.evaluate(
    async ([runOnly, exclude]) => {
      const { axe } = window as unknown as { axe: Axe };
      const { violations } = await axe.run(
        { exclude: [exclude] },
        // Passed rules and selectors are not needed.
        { resultTypes: ['violations'], selectors: false, ...(runOnly ? { runOnly } : {}) },
      );
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    },
    [tags, behindDialog] as const,
  );
  expect(found, what).toEqual([]);
}
