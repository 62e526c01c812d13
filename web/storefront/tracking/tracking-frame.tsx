// The layout of order tracking: heading, search form, and a card for the result.
import { useRef } from 'react';
import { Link, useNavigate, useNavigation } from 'react-router';
import { normaliseTrackingNumber } from '../../../domain/orders/tracking-number.ts';
import { Button } from '../../ui/button.tsx';
import { inputStyle } from '../../ui/field.tsx';

interface TrackingFrameProps {
  /** The requested tracking number; blank before the first search. */
  trackingNumber: string;
  /** Low above an order: its content belongs on the first screen of a phone. */
  isCompact?: boolean;
  children: React.ReactNode;
}

export function TrackingFrame({ trackingNumber, isCompact = false, children }: TrackingFrameProps) {
  const isSearching = useNavigation().state === 'loading';
  return (
    <>
      <section className="bg-(image:--gradient-dusk) text-white">
        <div
          className={`page grid grid-cols-[minmax(0,1fr)] ${isCompact ? 'gap-3 pt-5 pb-18' : 'gap-6 pt-10 pb-24'} md:gap-6 md:pt-16 md:pb-32`}
        >
          <div className="grid grid-cols-1 gap-2">
            <h1 className={isCompact ? 'text-2xl font-extrabold md:text-4xl' : 'text-4xl font-extrabold'}>
              Track Your Order
            </h1>
            <p className={`max-w-text text-dusk-100 ${isCompact ? 'max-md:sr-only' : ''}`}>
              Your tracking number came with your order. It begins with JJ.
            </p>
          </div>
          {/* On a phone the shown order needs the space. */}
          <div className={isCompact ? 'max-md:hidden' : ''}>
            <TrackingSearch key={trackingNumber} trackingNumber={trackingNumber} isSearching={isSearching} />
          </div>
        </div>
      </section>
      <div className="page -mt-14 grid gap-6 md:-mt-20">
        {children}
        {isCompact ? (
          <p className="text-center md:hidden">
            <Link
              to="/track-order"
              className="inline-block rounded-md px-2 py-2.5 font-semibold text-dusk-600 underline underline-offset-2"
            >
              Track another order
            </Link>
          </p>
        ) : null}
      </div>
    </>
  );
}

function TrackingSearch({ trackingNumber, isSearching }: { trackingNumber: string; isSearching: boolean }) {
  const navigate = useNavigate();
  const input = useRef<HTMLInputElement>(null);

  function search(event: React.SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const number = normaliseTrackingNumber(input.current?.value ?? '');
    if (number) void navigate(`/track-order/${encodeURIComponent(number)}`);
  }

  return (
    <form action="/track-order" onSubmit={search} className="grid grid-cols-1 w-full max-w-xl gap-2">
      <label htmlFor="tracking" className="text-sm font-semibold">
        Tracking number
      </label>
      <div className="flex flex-wrap gap-3">
        <input
          ref={input}
          id="tracking"
          name="tracking"
          defaultValue={trackingNumber}
          placeholder="JJ-20260131-1234"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          // Customers may paste the whole link.
          maxLength={300}
          enterKeyHint="search"
          className={`${inputStyle} on-dusk min-w-[min(14rem,100%)] flex-1 font-semibold tabular-nums placeholder:font-normal`}
        />
        <Button type="submit" tone="ember" size="large" className="on-dusk grow sm:grow-0">
          {isSearching ? 'Looking…' : 'Track Order'}
        </Button>
      </div>
    </form>
  );
}

export function TrackingCard({ children }: { children: React.ReactNode }) {
  return (
    <section className="grid grid-cols-1 justify-items-center gap-3 rounded-2xl bg-card px-6 py-12 text-center shadow-lg">
      {children}
    </section>
  );
}
