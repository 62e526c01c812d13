// The page of a product that does not exist.
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { OtherDrinks } from './other-drinks.tsx';
import type { CardProduct } from './product-card.tsx';

/** @param props.others products to suggest, newest first */
export default function MissingProduct({ others }: { others: CardProduct[] }) {
  return (
    <div className="page">
      <section className="grid justify-items-center gap-4 py-10 text-center md:py-14">
        <p aria-hidden="true" className="text-5xl">
          🧃
        </p>
        <h1 className="text-4xl">Product not found</h1>
        <p className="-mt-2 max-w-[23em] text-ink-soft">It may have been renamed, or we no longer sell it.</p>
        <Link to="/shop" className={buttonStyle('leaf', 'large')}>
          Back to Shop
        </Link>
      </section>
      <OtherDrinks products={others} className="border-t border-line pt-8" />
    </div>
  );
}
