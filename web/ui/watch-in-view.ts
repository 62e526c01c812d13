// When an element comes into view or leaves it.

/**
 * Reports whether an element is in view, at once and after each change, until the returned function is called.
 * A slow device collects several reports and delivers them together, the last one being the newest: with the first, a
 * fast scroll to the end of a list would never be noticed, because an element that stays in view is not reported again.
 */
export function watchInView(
  element: Element,
  rootMargin: string,
  onReport: (isInView: boolean) => void,
): () => void {
  const observer = new IntersectionObserver((reports) => onReport(reports.at(-1)?.isIntersecting === true), {
    rootMargin,
  });
  observer.observe(element);
  return () => observer.disconnect();
}
