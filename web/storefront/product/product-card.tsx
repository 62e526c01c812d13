// A product in a list: picture, name, size and price, and "+", which opens the order form; of a drink that is sold out, a bell for
// one text when it is back. Apart from them, the card is one link.
// The kinds differ only in `cards.css`.
import { Link } from 'react-router';
import { formatSaving } from '../../../domain/money.ts';
import { stockColumns } from '../../lib/listed-products.ts';
import { FlavourDot, flavourSlug } from '../../ui/flavour.tsx';
import { Icon } from '../../ui/icons.tsx';
import { PreviousPrice, Price } from '../../ui/price.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { useShop } from '../layout/use-shop.ts';

export interface CardProduct {
  slug: string;
  name: string;
  tagline: string | null;
  price: number;
  previous_price: number | null;
  image_url: string | null;
  category: string | null;
  brand: string | null;
  /** Size and vessel. */
  serving: string | null;
  stock_quantity: number;
}

/** The columns of a card, for a query. */
export const cardColumns =
  `slug, name, tagline, price, previous_price, image_url, category, brand, serving, ${stockColumns}` as const;

type CardKind = 'feature' | 'offer' | 'list';

// Widths of the pictures: of the page's column of at most 73 rem, its edges and the gaps between cards.
const pictureSizes: Record<CardKind, string> = {
  feature: '(min-width: 1248px) 371px, (min-width: 768px) calc(30.7vw - 19px), calc(46vw - 6px)',
  offer: '136px',
  list: '(min-width: 1248px) 218px, (min-width: 768px) 29vw, (min-width: 640px) 44vw, 96px',
};

interface ProductCardProps {
  product: CardProduct;
  kind?: CardKind;
  /** True for the first cards of a list at the top of a page. */
  isFirst?: boolean;
  /** Width of the image as in the `sizes` attribute. Default: that of its kind. */
  sizes?: string;
}

export function ProductCard({
  product: { slug, name, price, previous_price, image_url, category, brand, serving, stock_quantity },
  kind = 'list',
  isFirst = false,
  sizes = pictureSizes[kind],
}: ProductCardProps) {
  const { settings } = useShop();
  const isGone = stock_quantity === 0;
  const saving = formatSaving(price, previous_price);
  const ownName = brand && name.startsWith(`${brand} `) ? name.slice(brand.length + 1) : name;
  const facts = [category && !name.includes(category) ? category : null, serving].filter(Boolean);
  return (
    <article
      data-flavour={flavourSlug(category)}
      data-kind={kind}
      data-gone={isGone || undefined}
      className="product-card"
    >
      <div className="card-picture">
        <ProductImage src={image_url} alt="" sizes={sizes} isFirst={isFirst} />
      </div>
      {isGone ? (
        <p className="card-note">Out of Stock</p>
      ) : saving ? (
        <p className="card-note">Save {saving}</p>
      ) : null}
      <h3 className="card-name text-lg">
        <Link to={`/shop/${slug}`} prefetch="intent" className="card-link">
          {ownName === name ? null : <span className="card-brand">{brand} </span>}
          {ownName}
        </Link>
      </h3>
      {facts.length > 0 ? (
        <p className="card-serving">
          <FlavourDot category={category} className="mr-1.5 size-2.5" />
          {facts.join(' · ')}
        </p>
      ) : null}
      <p className="card-prices">
        <Price cents={price} className="text-lg" />
        {previous_price ? <PreviousPrice cents={previous_price} /> : null}
      </p>
      {isGone ? (
        settings.offers_stock_alerts && (
          <Link to={`/shop/${slug}#back`} aria-label={`Tell me when ${name} is back`} className="card-plus">
            <Icon name="bell" />
          </Link>
        )
      ) : (
        // Opened by `use-quick-order.ts`; without its code, and without JavaScript, a link to the form as a page.
        <a
          href={`/shop/${slug}/order`}
          data-order={slug}
          rel="nofollow"
          aria-label={`Order ${name}`}
          className="card-plus"
        >
          <Icon name="plus" />
        </a>
      )}
    </article>
  );
}

/** A grid of cards; on phones one row for each, or with `isPaired` two in a row. */
export function ProductGrid({
  children,
  className = '',
  isPaired = false,
}: {
  children: React.ReactNode;
  className?: string;
  isPaired?: boolean;
}) {
  return (
    <ul
      className={`grid gap-x-3 gap-y-3.5 sm:gap-x-5 sm:gap-y-6 md:grid-cols-3 ${isPaired ? 'grid-pairs' : 'card-rows sm:grid-cols-2'} ${className}`}
    >
      {children}
    </ul>
  );
}
