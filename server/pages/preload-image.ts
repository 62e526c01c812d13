// Preloads a page's largest image from the head: its markup comes after the style sheet, in the second
// round trip of a new connection.

const first = /<picture[^>]*>((?:<source[^>]*>)*)(<img(?=[^>]* fetchpriority="high")[^>]*>)/i;
const firstLink = '<link rel="preload"';

/** An attribute's raw value, entities included; '' when it is absent. */
const attributeValue = (tag: string, name: string) =>
  new RegExp(` ${name}="([^"]*)"`, 'i').exec(tag)?.[1] ?? '';

/**
 * Rewrites a rendered page.
 * @param html the whole page as the router renders it
 * @returns the page with a preload of its first high-priority image, in the newest format and once per `media` of its
 *   sources; unchanged without such an image
 */
export function preloadFirstImage(html: string): string {
  const [, sources = '', image = ''] = first.exec(html) ?? [];
  if (!image) return html;
  const newest = (sources.match(/<source[^>]*>/gi) ?? []).filter(
    (source) => attributeValue(source, 'type') === 'image/avif',
  );
  const links = (newest.length > 0 ? newest : [image]).map((tag, index, all) => {
    const earlier = all.slice(0, index).map((other) => attributeValue(other, 'media'));
    // A browser uses the first matching source, so later ones are for other screens.
    const media = attributeValue(tag, 'media') || earlier.map((other) => `not all and ${other}`).join('');
    const attributes = {
      href: attributeValue(tag, 'srcset') ? '' : attributeValue(tag, 'src'),
      imagesrcset: attributeValue(tag, 'srcset'),
      imagesizes: attributeValue(tag, 'sizes'),
      type: attributeValue(tag, 'type'),
      media,
    };
    const attributeText = Object.entries(attributes).flatMap(([name, value]) =>
      value ? [` ${name}="${value}"`] : [],
    );
    return `${firstLink} as="image"${attributeText.join('')} fetchpriority="high"/>`;
  });
  // A function, because a URL may contain `$` patterns of replacement strings.
  return html.replace(firstLink, () => links.join('') + firstLink);
}
