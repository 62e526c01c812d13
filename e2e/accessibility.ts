// Runs axe on the current state of a page, and finds texts that a control covers.
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

/** Runs in the page. Texts of a list or table row that lie under one of the row's controls. */
function findCoveredTexts(): string[] {
  const covered: string[] = [];
  const isVisible = ({ width, height }: DOMRect) => width > 1 && height > 1;
  const intersection = (a: DOMRect, b: DOMRect) => {
    const [left, top] = [Math.max(a.left, b.left), Math.max(a.top, b.top)];
    return new DOMRect(
      left,
      top,
      Math.max(0, Math.min(a.right, b.right) - left),
      Math.max(0, Math.min(a.bottom, b.bottom) - top),
    );
  };
  for (const row of document.querySelectorAll('main :is(tr, li, article, [role=row], [role=listitem])')) {
    const rowBox = row.getBoundingClientRect();
    const controls = [...row.querySelectorAll('a, button, select, input')].filter((control) => {
      const box = control.getBoundingClientRect();
      // A link over the whole row is meant to cover its texts.
      return isVisible(box) && box.width * box.height < 0.7 * rowBox.width * rowBox.height;
    });
    const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const parent = text.parentElement;
      if (!parent || !text.textContent?.trim() || parent.closest('.sr-only, option')) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      for (let box of range.getClientRects()) {
        for (let clip: Element | null = parent; clip && clip !== row; clip = clip.parentElement) {
          if (getComputedStyle(clip).overflowX !== 'visible')
            box = intersection(box, clip.getBoundingClientRect());
        }
        const cover = controls.find((control) => {
          if (control.contains(parent)) return false;
          const { width, height } = intersection(box, control.getBoundingClientRect());
          return width > 4 && height > 4;
        });
        if (isVisible(box) && cover)
          covered.push(`"${text.textContent}" under "${cover.textContent || cover.outerHTML}"`);
      }
    }
  }
  return covered;
}

/**
 * Fails the test when axe finds anything, or when a control covers a text of its row.
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
  expect([...found, ...(await page.evaluate(findCoveredTexts))], what).toEqual([]);
}
