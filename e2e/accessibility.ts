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
  const shownTexts = (element: Element) => {
    const found: { text: string; parent: Element; boxes: DOMRect[] }[] = [];
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      const [text, parent] = [node.textContent?.trim(), node.parentElement];
      // What is in a closed part has a place, and is not shown.
      if (!parent || !text || parent.closest('.sr-only, option') || !parent.checkVisibility()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      found.push({ text, parent, boxes: [...range.getClientRects()] });
    }
    return found;
  };
  // The padding of a link enlarges what a finger can hit; it hides nothing.
  const drawnBoxes = (control: Element) => {
    const { backgroundColor, borderTopWidth } = getComputedStyle(control);
    const whole = control.getBoundingClientRect();
    if (borderTopWidth !== '0px' || !/^(transparent|rgba\(.*, 0\))$/.test(backgroundColor)) return [whole];
    const images = [...control.querySelectorAll('svg, img')].map((image) => image.getBoundingClientRect());
    const texts = shownTexts(control).flatMap(({ boxes }) => boxes.map((box) => intersection(box, whole)));
    return [...images, ...texts];
  };
  for (const row of document.querySelectorAll('main :is(tr, li, article, [role=row], [role=listitem])')) {
    const rowBox = row.getBoundingClientRect();
    // A bar that stays in view passes over the rest of the row.
    const isInBar = (element: Element): boolean => {
      for (let part: Element | null = element; part && part !== row; part = part.parentElement) {
        if (['sticky', 'fixed'].includes(getComputedStyle(part).position)) return true;
      }
      return false;
    };
    const controls = [...row.querySelectorAll('a, button, select, input')].filter((control) => {
      if (isInBar(control) || !control.checkVisibility()) return false;
      const box = control.getBoundingClientRect();
      // A link over the whole row is meant to cover its texts.
      return isVisible(box) && box.width * box.height < 0.7 * rowBox.width * rowBox.height;
    });
    for (const { text, parent, boxes } of shownTexts(row)) {
      if (isInBar(parent)) continue;
      for (let box of boxes) {
        for (let clip: Element | null = parent; clip && clip !== row; clip = clip.parentElement) {
          if (getComputedStyle(clip).overflowX !== 'visible')
            box = intersection(box, clip.getBoundingClientRect());
        }
        const cover = controls.find(
          (control) =>
            !control.contains(parent) &&
            drawnBoxes(control).some((drawn) => {
              const { width, height } = intersection(box, drawn);
              return width > 4 && height > 4;
            }),
        );
        if (isVisible(box) && cover)
          covered.push(`"${text}" under "${cover.textContent || cover.outerHTML}"`);
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
