// On a phone, the way to order stays in reach of the thumb once its button is out of sight.
import { useEffect, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Price } from '../../ui/price.tsx';

interface OrderBarProps {
  /** The element that it replaces: it is shown after scrolling past it. */
  after: React.RefObject<HTMLElement | null>;
  name: string;
  /** Cents, for all that is ordered. */
  cents: number;
  onOrder(): void;
  onPrepare(): void;
}

export function OrderBar({ after, name, cents, onOrder, onPrepare }: OrderBarProps) {
  const isShown = useIsPast(after);
  return (
    <section
      aria-label="Order this drink"
      // Out of sight it is out of reach too, and nothing is read twice.
      inert={!isShown}
      data-shown={isShown || undefined}
      className="order-bar fixed inset-x-0 bottom-0 z-20 border-t border-line bg-paper shadow-above md:hidden"
    >
      <div className="page flex items-center justify-between gap-4 pt-2.5 pb-[max(0.625rem,env(safe-area-inset-bottom))]">
        <p className="min-w-0">
          <span className="block truncate text-sm text-ink-soft">{name}</span>
          <Price cents={cents} className="text-xl" />
        </p>
        <Button
          size="large"
          onPointerEnter={onPrepare}
          onFocus={onPrepare}
          onClick={onOrder}
          aria-haspopup="dialog"
          className="shrink-0"
        >
          Order Now
        </Button>
      </div>
    </section>
  );
}

function useIsPast(place: OrderBarProps['after']): boolean {
  const [isPast, setPast] = useState(false);
  useEffect(() => {
    if (!place.current) return;
    // Whatever lies below the screen counts as seen: then a jump from one end of the page to the other is noticed too.
    const observer = new IntersectionObserver(([entry]) => setPast(entry?.isIntersecting === false), {
      rootMargin: '0px 0px 100000px 0px',
    });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [place]);
  return isPast;
}
