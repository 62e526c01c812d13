// Breadcrumbs of a page for search engines. A separate module because every page has them.

/**
 * The schema.org `BreadcrumbList` of a page.
 * @param origin the shop's public origin
 * @param steps from the first level to the page itself
 */
export function describeBreadcrumbs(origin: string, steps: readonly { name: string; path: string }[]) {
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
