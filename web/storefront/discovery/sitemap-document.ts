// The part of the sitemap protocol that a shop needs.

export interface SitemapPage {
  path: string;
  /** ISO date-time of the last change; null when it is not known. */
  changed: string | null;
}

/** @param origin of every page, without a trailing slash */
export function sitemapOf(origin: string, pages: readonly SitemapPage[]): string {
  const entries = pages.map(({ path, changed }) => {
    const when = changed ? `<lastmod>${new Date(changed).toISOString()}</lastmod>` : '';
    return `  <url><loc>${escapeXml(origin + path)}</loc>${when}</url>`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
${entries.join('\n')}
</urlset>
`;
}

/**
 * An index of several sitemaps.
 * @param paths of the sitemaps
 */
export function sitemapIndexOf(origin: string, paths: readonly string[]): string {
  const entries = paths.map((path) => `  <sitemap><loc>${escapeXml(origin + path)}</loc></sitemap>`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
${entries.join('\n')}
</sitemapindex>
`;
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&apos;',
  '"': '&quot;',
};
const escapeXml = (text: string): string =>
  text.replace(/[&<>'"]/g, (character) => entities[character] ?? '');
