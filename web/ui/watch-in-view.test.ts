import { afterEach, expect, test, vi } from 'vitest';
import { watchInView } from './watch-in-view.ts';

type Report = Pick<IntersectionObserverEntry, 'isIntersecting'>;

/** The browser's part, which delivers what the test says. */
class Deliveries {
  static deliver: (reports: Report[]) => void;
  static watched: Element[] = [];
  constructor(deliver: (reports: Report[]) => void) {
    Deliveries.deliver = deliver;
  }
  observe(element: Element) {
    Deliveries.watched.push(element);
  }
  disconnect() {
    Deliveries.watched = [];
  }
}

afterEach(() => vi.unstubAllGlobals());

test('the newest of several reports counts, and none comes after the end', () => {
  vi.stubGlobal('IntersectionObserver', Deliveries);
  const element = {} as Element;
  const reported: boolean[] = [];
  const end = watchInView(element, '0px', (isInView) => reported.push(isInView));
  expect(Deliveries.watched).toEqual([element]);

  Deliveries.deliver([{ isIntersecting: false }]);
  Deliveries.deliver([{ isIntersecting: false }, { isIntersecting: true }]);
  Deliveries.deliver([{ isIntersecting: true }, { isIntersecting: false }]);
  expect(reported).toEqual([false, true, false]);

  end();
  expect(Deliveries.watched).toEqual([]);
});
