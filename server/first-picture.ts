// Tells the browser of a page's largest picture in the page's first lines: its markup comes behind the style sheet, in the second
// flight of a new connection.

const first = /<picture[^>]*>((?:<source[^>]*>)*)(<img(?=[^>]* fetchpriority="high")[^>]*>)/i;
const firstLink = '<link rel="preload"';

/** An attribute's value as it is written, entities and all; '' when it is not there. */
const written = (tag: string, name: string) => new RegExp(` ${name}="([^"]*)"`, 'i').exec(tag)?.[1] ?? '';

/**
 * Rewrites a rendered page.
 * @param html the whole page as the router renders it
 * @returns the page with its first picture of high priority among its preloads, in the format that is newest and once per
 *   width of the screen that has one of its own; as it came when it has none
 */
export function preloadFirstPicture(html: string): string {
  const [, sources = '', image = ''] = first.exec(html) ?? [];
  if (!image) return html;
  const newest = (sources.match(/<source[^>]*>/gi) ?? []).filter(
    (source) => written(source, 'type') === 'image/avif',
  );
  const links = (newest.length > 0 ? newest : [image]).map((tag, index, all) => {
    const earlier = all.slice(0, index).map((other) => written(other, 'media'));
    // A browser takes the first that fits, so what comes later is for other screens.
    const media = written(tag, 'media') || earlier.map((other) => `not all and ${other}`).join('');
    const attributes = {
      href: written(tag, 'srcset') ? '' : written(tag, 'src'),
      imagesrcset: written(tag, 'srcset'),
      imagesizes: written(tag, 'sizes'),
      type: written(tag, 'type'),
      media,
    };
    const told = Object.entries(attributes).flatMap(([name, value]) =>
      value ? [` ${name}="${value}"`] : [],
    );
    return `${firstLink} as="image"${told.join('')} fetchpriority="high"/>`;
  });
  // A function, because an address may hold what a replacement would read as a pattern.
  return html.replace(firstLink, () => links.join('') + firstLink);
}
