// The page of a flavour or brand: what staff wrote about it, and its drinks (docs/product.md#pages-of-flavors-and-brands).
import { data, Link, redirect } from 'react-router';
import { brandsTag, categoriesTag, productsTag } from '../../../domain/cache-tags.ts';
import {
  compareNames,
  pageNumberIn,
  selectProducts,
  slugLength,
} from '../../../domain/products/catalogue.ts';
import { areProducts, shownProducts } from '../../lib/listed-products.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { ErrorScreen } from '../../ui/error-screen.tsx';
import { FlavourDot, flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { describeBreadcrumbs } from '../discovery/breadcrumbs.ts';
import { DataBlock } from '../discovery/data-block.tsx';
import { groupDescription, groupTitle } from '../discovery/page-texts.ts';
import { describeCollection } from '../discovery/structured-data.ts';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import { ProductCard, ProductGrid } from '../product/product-card.tsx';
import type { ShopList } from '../shop/shop-list.ts';
import type { Route } from './+types/group-page.ts';

type Kind = 'flavor' | 'brand';

const groupPath = (kind: Kind, slug: string, page = 1) =>
  `/${kind}s/${slug}${page > 1 ? `?page=${page}` : ''}`;

/** Pages by the names of their flavours or brands, in the order of the names. */
const pagesOf = (kind: Kind, slugs: Record<string, string>) =>
  Object.entries(slugs)
    .sort(([one], [other]) => compareNames(one, other))
    .map(([name, slug]) => ({ name, path: groupPath(kind, slug) }));

export const meta: Route.MetaFunction = ({ matches, loaderData }) => {
  const group = loaderData?.group;
  if (!group) return [{ title: 'Page not found' }, { name: 'robots', content: 'noindex' }];
  const { kind, slug, page, pages } = group;
  return describePage(matches, {
    title: `${groupTitle(group)}${page > 1 ? `, page ${page}` : ''}`,
    description: groupDescription(group),
    path: groupPath(kind, slug, page),
    neighbours: {
      prev: page > 1 ? groupPath(kind, slug, page - 1) : null,
      next: page < pages ? groupPath(kind, slug, page + 1) : null,
    },
  });
};

export async function loader({ context, request, params }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const { tables } = shop.store;
  const { pathname, searchParams } = new URL(request.url);
  const kind: Kind = pathname.startsWith('/brands') ? 'brand' : 'flavor';
  const { slug } = params;
  if (slug === undefined) throw redirect(`/shop?filter=${kind}`);
  shop.addCacheTags(productsTag, categoriesTag, brandsTag);
  const missing = () => data({ group: null }, { status: 404 });
  if (slug.length > slugLength || !/^[a-z0-9-]+$/.test(slug)) return missing();
  const columns = 'name, slug, page_text';
  const found =
    kind === 'brand'
      ? await tables.from('brands').select(columns).eq('slug', slug).maybeSingle()
      : await tables.from('categories').select(columns).eq('slug', slug).maybeSingle();
  if (found.error) throw data(null, { status: 503 });
  if (!found.data) return missing();
  const { name, page_text } = found.data;
  const page = pageNumberIn(searchParams);
  const filter = { brand: kind === 'brand' ? name : null, category: kind === 'flavor' ? name : null };
  const answer = await tables.rpc('shop_page', {
    search: '',
    sort: 'popularity',
    page,
    ...(filter.brand === null ? { category: name } : { brand: name }),
  });
  const list = answer.data as unknown as ShopList | null;
  if (answer.error || !list || !areProducts(list.products)) throw data(null, { status: 503 });
  // A small shop sends all of its drinks, a large one a page of those that were asked for.
  const products = list.is_whole
    ? selectProducts(list.products, { search: '', sort: 'popularity', ...filter }, null)
    : list.products;
  const count = list.is_whole ? products.length : list.count;
  if (count === 0) return missing();
  const pages = list.is_whole ? 1 : list.pages;
  if (page > pages) throw redirect(groupPath(kind, slug));
  return {
    group: {
      kind,
      name,
      slug,
      text: page_text,
      count,
      page,
      pages,
      lowestPrice: pages > 1 ? null : Math.min(...products.map(({ price }) => price)),
      products: shownProducts(products, shop),
      flavors: pagesOf('flavor', list.category_slugs),
      brands: pagesOf('brand', list.brand_slugs),
    },
  };
}

export default function GroupPage({ loaderData: { group } }: Route.ComponentProps) {
  return group ? <Group group={group} /> : <ErrorScreen isMissing />;
}

type Group = NonNullable<Route.ComponentProps['loaderData']['group']>;

function Group({ group }: { group: Group }) {
  const { config } = useShop();
  const { kind, name, slug, text, count, page, pages, products } = group;
  const path = groupPath(kind, slug, page);
  return (
    <div
      data-flavour={kind === 'flavor' ? flavourSlug(name) : undefined}
      className="bg-[linear-gradient(180deg,color-mix(in_oklab,var(--flavour)_22%,var(--color-paper)),var(--color-paper)_30rem)]"
    >
      <DataBlock
        data={
          import.meta.env.SSR
            ? [
                describeCollection(
                  { origin: config.publicUrl },
                  { name: groupTitle(group), description: groupDescription(group), path, count, products },
                ),
                describeBreadcrumbs(config.publicUrl, [
                  { name: 'Shop all drinks', path: '/shop' },
                  { name, path: groupPath(kind, slug) },
                ]),
              ]
            : null
        }
      />
      <div className="page pt-2 pb-4 md:pt-6">
        <nav aria-label="Breadcrumb">
          <Link
            to="/shop"
            prefetch="intent"
            className="-ml-2 inline-flex min-h-11 items-center gap-2 rounded-md px-2 text-sm font-semibold text-ink-soft hover:text-ink hover:underline"
          >
            <Icon name="arrow" className="size-4 rotate-180" />
            All drinks
          </Link>
        </nav>
        <header className="mt-1 mb-7 grid gap-x-12 gap-y-3 md:mt-3 md:mb-10 lg:grid-cols-[auto_minmax(0,1fr)] lg:items-end">
          <div className="grid gap-1">
            <p className="flex items-center gap-2 text-sm font-semibold text-ink-soft">
              {kind === 'flavor' ? <FlavourDot category={name} className="size-4" /> : null}
              {kind === 'flavor' ? 'Flavor' : 'Brand'} · {count === 1 ? '1 drink' : `${count} drinks`}
            </p>
            <h1 className="text-name font-extrabold tracking-tight wrap-anywhere">{name}</h1>
          </div>
          {text ? (
            <p className="max-w-text leading-relaxed whitespace-pre-line text-ink-soft wrap-anywhere">
              {text}
            </p>
          ) : null}
        </header>
        <h2 className="sr-only">{name} drinks</h2>
        <ProductGrid className="lg:grid-cols-4 xl:grid-cols-5">
          {products.map((product, index) => (
            <li key={product.slug} className={index < 6 ? '' : 'product-below'}>
              <ProductCard product={product} isFirst={index < 2} />
            </li>
          ))}
        </ProductGrid>
        {pages > 1 ? (
          <nav aria-label="More drinks" className="mt-10 flex flex-wrap justify-center gap-3">
            {page > 1 ? (
              <Link
                to={groupPath(kind, slug, page - 1)}
                rel="prev"
                className={buttonStyle('outline', 'large')}
              >
                Previous drinks
              </Link>
            ) : null}
            {page < pages ? (
              <Link to={groupPath(kind, slug, page + 1)} rel="next" className={buttonStyle('dusk', 'large')}>
                More drinks
              </Link>
            ) : null}
          </nav>
        ) : null}
        <div className="mt-14 grid gap-8 border-t border-line pt-8 md:mt-20">
          <Others
            title={kind === 'flavor' ? 'Other flavors' : 'Flavors'}
            group={group}
            pages={group.flavors}
          />
          <Others title={kind === 'brand' ? 'Other brands' : 'Brands'} group={group} pages={group.brands} />
        </div>
      </div>
    </div>
  );
}

/** Links to the other pages of flavours or brands. */
function Others({ title, group, pages }: { title: string; group: Group; pages: Group['flavors'] }) {
  const own = groupPath(group.kind, group.slug);
  const others = pages.filter(({ path }) => path !== own);
  if (others.length === 0) return null;
  return (
    <nav aria-label={title}>
      <h2 className="mb-3 text-xl font-extrabold">{title}</h2>
      <ul className="flex flex-wrap gap-2">
        {others.map(({ name, path }) => (
          <li key={path} className="min-w-0">
            <Link
              to={path}
              prefetch="intent"
              className="inline-flex min-h-11 items-center gap-2.5 rounded-pill border border-line-strong bg-card px-4 text-sm font-bold wrap-anywhere hover:border-dusk-700"
            >
              {path.startsWith('/flavors') ? <FlavourDot category={name} className="size-4" /> : null}
              {name}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
