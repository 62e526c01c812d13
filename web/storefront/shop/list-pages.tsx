// Links to the other pages of a long product list. Loaded on use.
import { useEffect, useRef } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { buttonStyle } from '../../ui/button.tsx';

interface ListPagesProps {
  list: { page: number; pages: number; count: number; may_be_more: boolean };
  /** URL of a page of this list. */
  pathOf(page: number): string;
  first: number;
  shownCount: number;
}

/** Page size of `public.shop_page`. */
const pageSize = 60;

/** Without JavaScript, "Show more drinks" opens the next page. */
export default function ListPages({
  list: { page, pages, count, may_be_more },
  pathOf,
  first,
  shownCount,
}: ListPagesProps) {
  const isLast = page >= pages;
  const place = useRef<HTMLParagraphElement>(null);
  const hadFocus = useRef(false);
  useEffect(() => {
    // The link disappears with the last page.
    if (isLast && hadFocus.current) place.current?.focus({ preventScroll: true });
    hadFocus.current = false;
  }, [isLast]);
  const from = (first - 1) * pageSize + 1;
  return (
    <nav aria-label="More drinks" className="mt-10 grid justify-items-center gap-4">
      <p ref={place} tabIndex={-1} role="status" className="text-sm font-semibold text-ink-soft">
        Showing {formatCount(from)} to {formatCount(from + shownCount - 1)} of {formatCount(count)}
        {may_be_more ? '+' : ''} drinks
      </p>
      <div className="flex flex-wrap justify-center gap-3">
        {first > 1 ? (
          <Link to={pathOf(first - 1)} rel="prev" className={buttonStyle('outline', 'large')}>
            Previous drinks
          </Link>
        ) : null}
        {isLast ? null : (
          <Link
            to={pathOf(page + 1)}
            rel="next"
            replace
            preventScrollReset
            onClick={() => {
              hadFocus.current = true;
            }}
            className={buttonStyle('dusk', 'large')}
          >
            Show more drinks
          </Link>
        )}
      </div>
    </nav>
  );
}
