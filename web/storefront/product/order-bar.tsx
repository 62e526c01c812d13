// On phones, a fixed bar with the order button while the page's own button is out of view.
import { useEffect, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Price } from '../../ui/price.tsx';
import { watchInView } from '../../ui/watch-in-view.ts';

interface OrderBarProps {
  /** The element that it replaces: the bar appears after scrolling past it. */
  after: React.RefObject<HTMLElement | null>;
  name: string;
  /** Cents, for the whole quantity. */
  cents: number;
  /** Whether a tap waits for the form's code. */
  isWaiting: boolean;
  onOrder(): void;
  onPrepare(): void;
}

export function OrderBar({ after, name, cents, isWaiting, onOrder, onPrepare }: OrderBarProps) {
  const isShown = useIsPast(after);
  return (
    <section
      aria-label="Order this drink"
      // Inert while hidden, so that it is neither focused nor read twice.
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
          data-tapped={isWaiting || undefined}
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
    // Everything below the screen counts as visible, so that a jump from one end of the page to the other is detected
    // too.
    return watchInView(place.current, '0px 0px 100000px 0px', (isInView) => setPast(!isInView));
  }, [place]);
  return isPast;
}
