// Queries of products and categories, with their keys.
import { useQuery } from '@tanstack/react-query';
import { factColumns } from '../../../domain/products/product-facts.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, TableProblem } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { type Cursor, type ReadPage, useRows } from '../list/use-rows.ts';
import type { ProductValues } from './product-values.ts';

/** A product as in the list. */
export interface ListedProduct extends Cursor {
  name: string;
  slug: string;
  tagline: string | null;
  price: number;
  previous_price: number | null;
  category: string | null;
  stock_quantity: number;
  is_low_on_stock: boolean;
  is_active: boolean;
  image_url: string | null;
  updated_at: string;
  sold_out_until: string | null;
}
const listedColumns =
  'id, name, slug, tagline, price, previous_price, category, stock_quantity, is_low_on_stock, is_active, image_url, created_at, updated_at, sold_out_until';

/** The URLs of a product's images, in the order in which its page shows them. */
export interface ProductImages {
  image_url: string | null;
  more_images: string[];
}

export const imagesOf = ({ image_url, more_images }: ProductImages): string[] =>
  image_url === null ? more_images : [image_url, ...more_images];

/** A product as in the form. */
export interface EditedProduct extends ProductValues, ProductImages {
  id: string;
  updated_at: string;
  sold_out_until: string | null;
}
export const editedColumns =
  `id, name, slug, tagline, price, previous_price, stock_quantity, low_stock_below, category, brand, home_section, home_position, ${factColumns}, description, image_url, more_images, updated_at, sold_out_until` as const;

export interface ProductFilters {
  search: string;
  category: string;
  /** 'low', or '' for any. */
  stock: string;
  /** 'name', 'price' or 'stock', with '-' before it for descending; '' for newest first. */
  sort: string;
}

const listKey = (filters: ProductFilters) => ['products', 'list', filters] as const;

/** Search anywhere in the name, exact category. */
export function readProducts(
  tables: Staff['tables'],
  { search, category, stock, sort }: ProductFilters,
): ReadPage<ListedProduct> {
  return ({ after, limit, signal }) => {
    const found = tables
      .rpc('find_products', {
        search,
        category: category || null,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
        sort,
        low_on_stock: stock === 'low',
      })
      .select(listedColumns);
    // By a column, the procedure has sorted them.
    const rows = sort
      ? found
      : found.order('created_at', { ascending: false }).order('id', { ascending: false });
    return rows.abortSignal(signal);
  };
}

export function useProducts(filters: ProductFilters) {
  const { tables } = useMember().staff;
  return useRows(listKey(filters), readProducts(tables, filters));
}

/** Number of active products that are low on stock; undefined until loaded. */
export function useLowStockCount(): number | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['products', 'low on stock'],
    queryFn: async ({ signal }) => {
      const { count, error, status } = await tables
        .from('products')
        .select('id', { count: 'exact', head: true })
        .is('is_active', true)
        .is('is_low_on_stock', true)
        .abortSignal(signal);
      if (error) throw new TableProblem(error, status);
      return count ?? 0;
    },
  }).data;
}

/** The brands of active products. */
export function useBrands(): readonly string[] {
  const { tables } = useMember().staff;
  const { data } = useQuery({
    queryKey: ['products', 'brands'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('list_brands').abortSignal(signal)),
  });
  return data ?? [];
}

export interface ListedCategory {
  id: string;
  name: string;
  is_active: boolean;
  /** Number of products in it; 101 means more than 100. */
  productCount: number;
}

/** Every category by name, including inactive ones: the filters and the form hide those. */
export function useCategories() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['categories'],
    queryFn: async ({ signal }): Promise<ListedCategory[]> =>
      dataOf(await tables.rpc('list_categories').abortSignal(signal)).map(({ products, ...category }) => ({
        ...category,
        productCount: products,
      })),
  });
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The current state of one product; null if it does not exist. */
export async function readProduct(tables: Staff['tables'], id: string): Promise<EditedProduct | null> {
  if (!uuid.test(id)) return null;
  const [product] = dataOf(await tables.from('products').select(editedColumns).eq('id', id));
  return product ?? null;
}
