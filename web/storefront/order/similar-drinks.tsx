// Alternatives to a drink that cannot be ordered. Their order form starts with the typed values.
import { Link } from 'react-router';
import { formatKsh } from '../../../domain/money.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { useLeaveDialog } from '../../ui/dialog/dialog-history.ts';
import { ProductImage } from '../../ui/product-image.tsx';

export interface SimilarDrink {
  slug: string;
  name: string;
  price: number;
  image_url: string | null;
  stock_quantity: number;
}

interface SimilarDrinksProps {
  drinks: readonly SimilarDrink[];
  /** The quantity is kept for the other drink. */
  quantity: number;
  /** Whether they are submit buttons of the surrounding form, which keep the typed values without JavaScript. */
  areButtons?: boolean;
}

/** Value of such a button: fills in the form of the other drink without placing an order. */
export const fillField = 'fill';

const rowStyle =
  '-mx-2 flex min-h-11 w-[calc(100%+1rem)] items-center gap-3 rounded-md px-2 py-1 text-left font-semibold hover:bg-ember-100';

export function SimilarDrinks({ drinks, quantity, areButtons = false }: SimilarDrinksProps) {
  const { replace, leave } = useLeaveDialog();
  const available = drinks.filter((drink) => drink.stock_quantity > 0);
  return (
    <>
      {available.length > 0 ? (
        <ul className="mt-2 grid gap-1">
          {available.map((drink) => {
            const orderable = Math.min(quantity, drink.stock_quantity);
            return (
              <li key={drink.slug}>
                {areButtons ? (
                  <button
                    type="submit"
                    name={fillField}
                    value="yes"
                    formNoValidate
                    formAction={`/shop/${drink.slug}/order?quantity=${orderable}`}
                    className={rowStyle}
                  >
                    <Row drink={drink} />
                  </button>
                ) : (
                  <Link
                    to={`/shop/${drink.slug}`}
                    state={{ orderAgain: orderable }}
                    replace={replace}
                    onClick={leave}
                    className={rowStyle}
                  >
                    <Row drink={drink} />
                  </Link>
                )}
              </li>
            );
          })}
        </ul>
      ) : null}
      <Link to="/shop" replace={replace} onClick={leave} className={`${buttonStyle('outline')} mt-2`}>
        See all drinks
      </Link>
    </>
  );
}

function Row({ drink }: { drink: SimilarDrink }) {
  return (
    <>
      <ProductImage
        src={drink.image_url}
        alt=""
        sizes="40px"
        className="size-10 shrink-0 rounded-md text-xl!"
      />
      <span className="min-w-0 flex-1 leading-tight">{drink.name}</span>
      <span className="shrink-0 tabular-nums">{formatKsh(drink.price)}</span>
    </>
  );
}
