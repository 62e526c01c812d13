// The way from the home page to a page, for search engines. Apart from the rest: every page has one.

/**
 * A trail in the words of schema.org.
 * @param origin the shop's public origin
 * @param steps from the first level on; the last one is the page itself
 */
export function describeTrail(origin: string, steps: readonly { name: string; path: string }[]) {
  return {
    '@context': 'https://schema.org',
    '@type': 'BreadcrumbList',
    itemListElement: [{ name: 'Home', path: '/' }, ...steps].map(({ name, path }, index) => ({
      '@type': 'ListItem',
      position: index + 1,
      name,
      item: `${origin}${path}`,
    })),
  };
}
