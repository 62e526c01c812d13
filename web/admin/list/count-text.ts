// How many rows a list has, in words.
import { formatCount } from '../../../domain/count.ts';
import { mostSorted } from './use-rows.ts';

/** The database counts up to this number plus one, except for all orders and searches. */
const maxCounted = 10_000;
/** Of a search or a rider; `private.most_counted` in the database. */
const mostCounted = 200;

/** A count of `count_orders`, `count_deliveries` or `count_work`. */
export const countFigure = (count: number): string =>
  count === maxCounted + 1 ? '10,000+' : formatCount(count);

export interface CountedRows {
  one: string;
  many: string;
  /** Whether they are those of a search or a rider, of which fewer are counted. */
  isSearch: boolean;
  /** Whether they are sorted by another column than the date. */
  isSorted: boolean;
}

/** Such as '3 orders', and which of them are sorted unless all are. */
export function countText(count: number, { one, many, isSearch, isSorted }: CountedRows): string {
  const isMore = isSearch && count > mostCounted;
  const rows = `${isMore ? `More than ${mostCounted}` : countFigure(count)} ${count === 1 ? one : many}`;
  const sorted = isMore ? mostSorted.search : mostSorted.list;
  return isSorted && (isMore || count > sorted) ? `${rows}, the newest ${formatCount(sorted)} sorted` : rows;
}
