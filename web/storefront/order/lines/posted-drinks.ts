// The drinks of the order form without JavaScript: each is a hidden field, and buttons of the same form change them.
import type { Store } from '../../../../supabase/store.ts';
import { drinksById } from './find-drinks.ts';
import { type OrderLine, quantityIn, readLines, withQuantity } from './order-lines.ts';

/** Name of the hidden field of a drink. */
export const drinkField = 'drink';
/** Name of the buttons that change the drinks. */
export const changeField = 'change';
/** Names of the search field, and of the hidden field with the text that was searched for last. */
export const searchField = 'find';
export const searchedField = 'found';

export const writeDrink = (line: OrderLine): string => JSON.stringify(line);

/** Reads the drinks of a submission. */
export function postedLines(sent: FormData): OrderLine[] {
  return readLines(
    sent.getAll(drinkField).flatMap((text) => {
      try {
        return [JSON.parse(String(text))];
      } catch {
        return [];
      }
    }),
  );
}

/** What the pressed button asks for. */
export type DrinkChange =
  | { kind: 'search'; term: string }
  | { kind: 'add'; id: string }
  | { kind: 'set'; id: string; quantity: number };

export const changeValues = {
  search: 'search',
  /** The form's default button, which Enter presses: it searches if the search field has another text, else it orders. */
  enter: 'enter',
  add: (id: string) => `add ${id}`,
  set: (id: string, quantity: number) => `set ${id} ${quantity}`,
};

/** @returns null if the order is to be placed */
export function postedChange(sent: FormData): DrinkChange | null {
  const text = (name: string) => String(sent.get(name) ?? '').trim();
  const [kind, id = '', quantity = ''] = text(changeField).split(' ');
  const term = text(searchField).slice(0, 200);
  switch (kind) {
    case changeValues.search:
      return { kind: 'search', term };
    case changeValues.enter:
      return term && term !== text(searchedField) ? { kind: 'search', term } : null;
    case 'add':
      return { kind: 'add', id };
    case 'set':
      return /^\d{1,9}$/.test(quantity) ? { kind: 'set', id, quantity: Number(quantity) } : null;
    default:
      return null;
  }
}

/** The lines after a change. An order keeps at least one drink. */
export async function applyChange(
  tables: Store['tables'],
  lines: readonly OrderLine[],
  change: DrinkChange,
): Promise<OrderLine[]> {
  if (change.kind === 'search') return [...lines];
  if (change.kind === 'add') {
    const [product] = await drinksById(tables, [change.id]);
    return product ? readLines(withQuantity(lines, product, quantityIn(lines, product.id) + 1)) : [...lines];
  }
  const line = lines.find(({ product }) => product.id === change.id);
  const changed = line ? withQuantity(lines, line.product, change.quantity) : [...lines];
  return changed.length > 0 ? changed : [...lines];
}

export interface CurrentLines {
  /** With the products' current prices and stock. */
  lines: OrderLine[];
  /** Ids of products that the shop has stopped selling. */
  gone: string[];
}

/** Without an answer the lines stay as they were sent. */
export async function refreshLines(
  tables: Store['tables'],
  lines: readonly OrderLine[],
): Promise<CurrentLines> {
  const found = await drinksById(
    tables,
    lines.map(({ product }) => product.id),
  ).catch(() => null);
  if (found === null) return { lines: [...lines], gone: [] };
  const byId = new Map(found.map((product) => [product.id, product]));
  return {
    lines: lines.map(({ product, quantity }) => ({ product: byId.get(product.id) ?? product, quantity })),
    gone: lines.flatMap(({ product: { id } }) => (byId.has(id) ? [] : [id])),
  };
}
