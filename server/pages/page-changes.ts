// Translates change notifications of the database to the cache tags of pages.
import {
  brandsTag,
  categoriesTag,
  categoryProductsTag,
  deliveryAreasTag,
  homeProductsTag,
  productsTag,
  productTag,
  quotesTag,
  settingsTag,
  shopTextsTag,
  synonymsTag,
} from '../../domain/cache-tags.ts';

/** Any change of these tables changes the tag of the same name. */
export const tablesWithOneTag = [
  settingsTag,
  shopTextsTag,
  categoriesTag,
  brandsTag,
  synonymsTag,
  deliveryAreasTag,
  quotesTag,
];

interface ProductRow {
  slug: string;
  category: string | null;
  is_active: boolean;
  home_section: string | null;
  home_position: number | null;
}

/**
 * Reads one notification of the channel `page_changes`.
 * @param payload JSON as `private.announce_page_change` writes it
 * @returns the changed tags; null when they are unknown, so that every page may be out of date
 */
export function changedTags(payload: string): string[] | null {
  let change: { table?: unknown; old?: unknown; new?: unknown };
  try {
    change = JSON.parse(payload);
  } catch {
    return null;
  }
  if (change === null || typeof change !== 'object') return null;
  for (const tag of tablesWithOneTag) {
    if (change.table === tag) return [tag];
  }
  if (change.table !== productsTag) return null;

  const rows = [change.old, change.new].filter((row) => row !== undefined);
  if (rows.length === 0 || !rows.every(isProductRow)) return null;
  // Visitors see active products only.
  const active = rows.filter(({ is_active }) => is_active);
  if (active.length === 0) return [];
  const tags = [productsTag, ...active.map(({ slug }) => productTag(slug))];
  const [before, after] = active;
  const isElsewhere = (key: 'category' | 'home_section' | 'home_position') => before?.[key] !== after?.[key];
  const isShownElsewhere = !before || !after || isElsewhere('category');
  if (isShownElsewhere) {
    tags.push(
      ...active.flatMap(({ category }) => (category === null ? [] : [categoryProductsTag(category)])),
    );
  }
  if (isShownElsewhere || isElsewhere('home_section') || isElsewhere('home_position'))
    tags.push(homeProductsTag);
  return [...new Set(tags)];
}

function isProductRow(row: unknown): row is ProductRow {
  const { slug, category, is_active } = (row ?? {}) as Partial<Record<keyof ProductRow, unknown>>;
  return (
    typeof slug === 'string' &&
    typeof is_active === 'boolean' &&
    (category === null || typeof category === 'string')
  );
}
