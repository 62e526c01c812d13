// Translates change notifications of the database to the facts that pages are made from.
import {
  categoriesFact,
  categoryProductsFact,
  homeProductsFact,
  productFact,
  productsFact,
  settingsFact,
  shopTextsFact,
  synonymsFact,
} from '../web/lib/page-facts.ts';

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
 * @returns the changed facts; null when they are unknown, so that every page may be out of date
 */
export function factsChanged(payload: string): string[] | null {
  let change: { table?: unknown; old?: unknown; new?: unknown };
  try {
    change = JSON.parse(payload);
  } catch {
    return null;
  }
  if (change === null || typeof change !== 'object') return null;
  for (const fact of [settingsFact, shopTextsFact, categoriesFact, synonymsFact]) {
    if (change.table === fact) return [fact];
  }
  if (change.table !== productsFact) return null;

  const rows = [change.old, change.new].filter((row) => row !== undefined);
  if (rows.length === 0 || !rows.every(isProductRow)) return null;
  // Visitors see active products only.
  const seen = rows.filter(({ is_active }) => is_active);
  if (seen.length === 0) return [];
  const facts = [productsFact, ...seen.map(({ slug }) => productFact(slug))];
  const [before, after] = seen;
  const isElsewhere = (key: 'category' | 'home_section' | 'home_position') => before?.[key] !== after?.[key];
  const isShownElsewhere = !before || !after || isElsewhere('category');
  if (isShownElsewhere) {
    facts.push(
      ...seen.flatMap(({ category }) => (category === null ? [] : [categoryProductsFact(category)])),
    );
  }
  if (isShownElsewhere || isElsewhere('home_section') || isElsewhere('home_position'))
    facts.push(homeProductsFact);
  return [...new Set(facts)];
}

function isProductRow(row: unknown): row is ProductRow {
  const { slug, category, is_active } = (row ?? {}) as Partial<Record<keyof ProductRow, unknown>>;
  return (
    typeof slug === 'string' &&
    typeof is_active === 'boolean' &&
    (category === null || typeof category === 'string')
  );
}
