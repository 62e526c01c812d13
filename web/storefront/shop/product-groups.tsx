// The product list grouped by brand or flavour. Loaded on use.
import { useId } from 'react';
import { Link } from 'react-router';
import type { groupProducts } from '../../../domain/products/catalogue.ts';
import { FlavourDot } from '../../ui/flavour.tsx';
import { type CardProduct, ProductCard, ProductGrid } from '../product/product-card.tsx';

export interface ProductGroupsProps {
  groups: ReturnType<typeof groupProducts<CardProduct>>;
  by: 'brand' | 'flavor';
  /** Slugs of the groups' pages, by their names. */
  slugs: Record<string, string>;
  /** Whether the groups are complete: on a page of a longer list, the number would count only that page. */
  isWhole: boolean;
}

/** On desktops the name next to its drinks. */
export default function ProductGroups({ groups, by, slugs, isWhole }: ProductGroupsProps) {
  const id = useId();
  return (
    <div className="grid gap-10 md:gap-14">
      {groups.map(({ name, products: members }, place) => (
        <section
          key={name}
          aria-labelledby={`${id}-${place}`}
          className="grid min-w-0 gap-x-7 gap-y-3 lg:grid-cols-[1fr_3fr] xl:grid-cols-[1fr_4fr]"
        >
          <header className="flex items-baseline justify-between gap-4 lg:sticky lg:top-24 lg:flex-col lg:justify-start lg:gap-1 lg:self-start">
            <h2 id={`${id}-${place}`} className="flex items-center gap-3 text-3xl font-extrabold">
              {by === 'flavor' && name ? <FlavourDot category={name} className="size-5" /> : null}
              {name && slugs[name] ? (
                <Link
                  to={`/${by}s/${slugs[name]}`}
                  prefetch="intent"
                  className="tap decoration-2 underline-offset-6 hover:underline"
                >
                  {name}
                </Link>
              ) : (
                (name ?? 'More drinks')
              )}
            </h2>
            {isWhole ? (
              <p className="shrink-0 text-sm text-ink-soft">
                {members.length === 1 ? '1 drink' : `${members.length} drinks`}
              </p>
            ) : null}
          </header>
          <ProductGrid className="xl:grid-cols-4">
            {members.map((product, index) => (
              <li key={product.slug} className={place < 2 ? '' : 'product-below'}>
                <ProductCard product={product} isFirst={place === 0 && index < 2} />
              </li>
            ))}
          </ProductGrid>
        </section>
      ))}
    </div>
  );
}
