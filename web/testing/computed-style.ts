// Testing Library asks for the style of each element and of those around it, to find what is hidden. happy-dom goes through all style
// sheets for every answer, which took a third of the tests' time. Here it has none: an element's tag and attributes decide what is shown.

/** Lets a window remember how elements with the same tag and attributes are displayed, and read visibility from `style`. */
export function rememberStyles(window: Window & typeof globalThis): void {
  const styleOf = window.getComputedStyle.bind(window);
  const known = new Map<string, string>();
  const read: Record<string, (element: Element) => string> = {
    display(element) {
      const kind = [
        element.tagName,
        ...['style', 'hidden', 'open'].map((name) => element.getAttribute(name)),
      ];
      const key = kind.join();
      const display = known.get(key) ?? styleOf(element).display;
      known.set(key, display);
      return display;
    },
    visibility(element) {
      const own = (element as HTMLElement).style?.visibility;
      return own || (element.parentElement && read.visibility?.(element.parentElement)) || 'visible';
    },
  };
  window.getComputedStyle = (element, pseudo) =>
    new Proxy({} as CSSStyleDeclaration, {
      get(_, name) {
        if (name === 'getPropertyValue')
          return (property: string) =>
            read[property]?.(element) ?? styleOf(element, pseudo).getPropertyValue(property);
        return read[String(name)]?.(element) ?? Reflect.get(styleOf(element, pseudo), name);
      },
    });
}
