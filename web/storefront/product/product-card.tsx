// A product in a list: image, flavour, name, price. The whole card is one link.
import { Link } from 'react-router';
import { savingPercent } from '../../../domain/money.ts';
import { stockColumns } from '../../lib/listed-products.ts';
import { FlavourDot, flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { PreviousPrice, Price } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';

export interface CardProduct {
  slug: string;
  name: string;
  tagline: string | null;
  price: number;
  previous_price: number | null;
  image_url: string | null;
  category: string | null;
  brand: string | null;
  stock_quantity: number;
}

/** The columns of a card, for a query. */
export const cardColumns =
  `slug, name, tagline, price, previous_price, image_url, category, brand, ${stockColumns}` as const;

interface ProductCardProps {
  product: CardProduct;
  isOnDusk?: boolean;
  /** True for the first cards of a list at the top of a page. */
  isFirst?: boolean;
  /** Width of the image as in the `sizes` attribute. Default: that of a card in a `ProductGrid`. */
  sizes?: string;
}

// The page's column of at most 73 rem, its edges and the gaps between two or three cards.
const gridSizes = '(min-width: 1248px) 371px, (min-width: 768px) calc(30.7vw - 19px), calc(46vw - 6px)';
/** For a grid of four columns from 1024 px on. */
export const fourColumns =
  '(min-width: 1248px) 271px, (min-width: 1024px) calc(23vw - 21px), (min-width: 768px) calc(30.7vw - 19px), calc(46vw - 6px)';

export function ProductCard({
  product,
  isOnDusk = false,
  isFirst = false,
  sizes = gridSizes,
}: ProductCardProps) {
  const { slug, name, tagline, price, previous_price, image_url, category, stock_quantity } = product;
  const saving = savingPercent(price, previous_price);
  return (
    <article
      data-flavour={flavourSlug(category)}
      className="group relative flex h-full flex-col gap-3 rounded-xl has-[a:focus-visible]:outline-3 has-[a:focus-visible]:outline-offset-4 has-[a:focus-visible]:outline-(--ring)"
    >
      <div className="@container relative aspect-square overflow-hidden rounded-xl bg-[color-mix(in_oklab,var(--flavour)_30%,var(--color-paper-deep))] shadow-md transition-shadow duration-(--duration-slow) group-hover:shadow-xl">
        <ProductImage
          src={image_url}
          alt=""
          sizes={sizes}
          isFirst={isFirst}
          className="absolute inset-0 size-full transition-[scale] duration-(--duration-scene) ease-out group-hover:scale-104"
        />
        {stock_quantity === 0 ? (
          <span className="absolute top-3 left-3 rounded-pill bg-paper px-3 py-1 text-xs font-bold text-ink">
            Out of Stock
          </span>
        ) : saving > 0 ? (
          <span className="absolute top-3 left-3 rounded-pill bg-ember-300 px-3 py-1 text-xs font-bold text-ink">
            Save {saving}%
          </span>
        ) : null}
      </div>
      <div className="flex flex-1 flex-col gap-1">
        {category ? (
          <p
            className={`flex items-center gap-2 text-xs font-semibold ${isOnDusk ? 'text-dusk-100' : 'text-ink-soft'}`}
          >
            <FlavourDot category={category} />
            {category}
          </p>
        ) : null}
        <h3 className="text-lg leading-tight sm:text-xl">
          <Link
            to={`/shop/${slug}`}
            prefetch="intent"
            className="outline-none! after:absolute after:inset-0 after:rounded-xl"
          >
            {name}
          </Link>
        </h3>
        {tagline ? (
          <p className={`text-sm max-sm:hidden ${isOnDusk ? 'text-dusk-200' : 'text-ink-soft'}`}>{tagline}</p>
        ) : null}
        <div className="mt-auto">
          {previous_price ? (
            <PreviousPrice
              cents={previous_price}
              className={`-mb-1.5 block pt-1 text-sm leading-tight ${isOnDusk ? 'text-dusk-200' : 'text-ink-soft'}`}
            />
          ) : null}
          {/* With a seven-digit price the arrow does not fit on a phone: it wraps out of view. */}
          <div className="flex h-10 flex-wrap content-start items-center justify-between gap-x-2 gap-y-4 overflow-hidden pt-1 pr-0.5">
            <Price cents={price} className="text-lg leading-9! sm:text-xl" />
            <span
              aria-hidden="true"
              className={`grid size-9 place-items-center rounded-pill transition-[background-color,color,translate] group-hover:translate-x-0.5 ${isOnDusk ? 'bg-white/12 text-white group-hover:bg-ember-300 group-hover:text-ink' : 'bg-paper-deep text-dusk-800 group-hover:bg-leaf-600 group-hover:text-white'}`}
            >
              <Icon name="arrow" className="size-4.5" />
            </span>
          </div>
        </div>
      </div>
    </article>
  );
}

export function ProductGrid({ children, className = '' }: { children: React.ReactNode; className?: string }) {
  return (
    <ul
      className={`grid grid-pairs gap-x-3 gap-y-8 sm:gap-x-5 md:grid-cols-3 md:gap-x-7 md:gap-y-11 ${className}`}
    >
      {children}
    </ul>
  );
}
