// The rows of a list with keyset pagination, so that the last pages of a long list cost no more than the first.
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { dataOf } from '../data/table-answer.ts';

/** Number of newest rows that are sorted by another column than the date; `private.sortable_rows` in the database. */
export const mostSorted = { list: 5000, search: 500 };

interface Sortable<Query> {
  order(column: string, options: { ascending: boolean }): Query;
  limit(count: number, options: { referencedTable: string }): Query;
}

/**
 * Asks for a page in its order. By other columns than the date the search has sorted it, and a single embedded row must not change that:
 * with a limit of its own the planner looks it up for each row, instead of joining the tables in an order that it chooses.
 * @param sort a column's key, with '-' before it for the opposite direction; '' for newest first
 * @param embedded what each row embeds one of
 */
export function inOrder<Query extends Sortable<Query>>(rows: Query, sort: string, embedded: string): Query {
  if (isSortedByOther(sort)) return rows.limit(1, { referencedTable: embedded });
  const ascending = sort === 'date';
  return rows.order('created_at', { ascending }).order('id', { ascending });
}

/** Whether a list has another order than that of the dates. */
export const isSortedByOther = (sort: string): boolean => !['', 'date', '-date'].includes(sort);

/** Cursor of a page: the row before it. */
export interface Cursor {
  created_at: string;
  id: string;
}

export interface PageWanted {
  /** The last row of the previous page, or null for the first page. */
  after: Cursor | null;
  limit: number;
  signal: AbortSignal;
}

interface Answer<Row> {
  data: Row[] | null;
  error: { message: string } | null;
}

export type ReadPage<Row> = (page: PageWanted) => PromiseLike<Answer<Row>>;

export const pageSize = 25;

export interface Rows<Row> {
  rows: readonly Row[];
  /** Nothing to show yet. */
  isLoading: boolean;
  /** The shown rows belong to the previous search; the new result is loading. */
  isOutdated: boolean;
  error: Error | null;
  retry(): void;
  hasMore: boolean;
  isLoadingMore: boolean;
  /** Rows are loading (the next page or a refresh); more cannot be requested until then. */
  isReading: boolean;
  more(): void;
}

/**
 * @param key of the query; starts with the table's name, by which the live channel invalidates it
 * @param read reads one page
 */
export function useRows<Row extends Cursor>(
  key: readonly [string, ...unknown[]],
  read: ReadPage<Row>,
): Rows<Row> {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: async ({ pageParam, signal }) =>
      dataOf(await read({ after: pageParam, limit: pageSize, signal })) as Row[],
    initialPageParam: null as Cursor | null,
    getNextPageParam(page) {
      const last = page.length < pageSize ? undefined : page.at(-1);
      return last && { created_at: last.created_at, id: last.id };
    },
    select: ({ pages }) => pages.flat(),
    placeholderData: keepPreviousData,
  });
  return {
    rows: query.data ?? [],
    isLoading: query.isPending,
    isOutdated: query.isPlaceholderData,
    error: query.error,
    retry: () => void query.refetch(),
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    isReading: query.isFetching,
    more() {
      // It would discard a running refresh.
      if (!query.isFetching) void query.fetchNextPage();
    },
  };
}

/** The filter `or` of a page after a row, for tables read directly; null for the first page. */
export const isAfter = (after: Cursor): string =>
  `created_at.lt."${after.created_at}",and(created_at.eq."${after.created_at}",id.lt.${after.id})`;
