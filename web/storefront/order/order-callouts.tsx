// Messages beside the order form's button: why an order was not placed, and how to continue.
import { type ReactNode, useEffect, useState } from 'react';
import { formatKsh } from '../../../domain/money.ts';
import { TextWithAmounts } from '../../ui/price.tsx';
import { ContactLinks } from '../layout/contact-links.tsx';
import type { OrderFailure } from './place/place-order.ts';
import { type SimilarDrink, SimilarDrinks } from './similar-drinks.tsx';

interface FailureCalloutProps {
  /** For what it describes, such as the button below it. */
  id?: string;
  failure: OrderFailure | null;
  quantity: number;
  /** Units reserved by the customer's own unpaid order. */
  ownUnits?: number;
  similar: readonly SimilarDrink[];
  /** Whether the drinks are submit buttons of the surrounding form. */
  areButtons?: boolean;
  /** Whether a toast has just given the reason: it is shown here once the toast has ended. */
  isToasted?: boolean;
}

/** How long a toast lasts, in ms (docs/product.md#numbers). */
const toastMs = 4000;

/** The reason of a failure. A toast with the same words ends first, so that nothing is said twice. */
function Reason({ text, isToasted }: { text: string; isToasted: boolean }) {
  const [isShown, setShown] = useState(!isToasted);
  useEffect(() => {
    if (isShown) return;
    const timer = setTimeout(() => setShown(true), toastMs);
    return () => clearTimeout(timer);
  }, [isShown]);
  return isShown ? `${sentence(text)} ` : null;
}

export function FailureCallout(props: FailureCalloutProps) {
  const { id, failure } = props;
  if (!failure || failure.field) return null;
  return (
    <div id={id} data-callout className="mb-3">
      {describeFailure(failure, props)}
    </div>
  );
}

function describeFailure(
  failure: OrderFailure,
  { quantity, ownUnits = 0, similar, areButtons = false, isToasted = false }: FailureCalloutProps,
) {
  switch (failure.kind) {
    case 'total_changed':
      return (
        <Callout title={`New total ${formatKsh(failure.now.total)}`}>
          <TextWithAmounts>{[...failure.changes, 'Nothing was ordered yet.'].join(' ')}</TextWithAmounts>
        </Callout>
      );
    case 'not_enough_stock':
      return <Callout title={leftTitle(failure.left)}>{describeLeft(failure.left, ownUnits)}</Callout>;
    case 'above_limit':
      return (
        <Callout title="Too much for one payment">
          Nothing was ordered. M-PESA takes at most {formatKsh(failure.limit)} in one payment. Order less, or{' '}
          <ContactLinks message="Habari! I would like to place a large order." /> for a party.
        </Callout>
      );
    case 'out_of_stock':
      return (
        <Callout title="Sold out for now">
          {ownUnits > 0 ? `${describeOwn(ownUnits)} ` : 'Nothing was ordered and nothing will be charged. '}
          Try one of these. Your details are already filled in.
          <SimilarDrinks drinks={similar} quantity={quantity} areButtons={areButtons} />
        </Callout>
      );
    case 'paused':
      return (
        <Callout title={failure.reason}>What you type stays here until you can place your order.</Callout>
      );
    case 'unavailable':
      return (
        <Callout title="We don't sell this one any more">
          Nothing was ordered and nothing will be charged. Try one of these. Your details are already filled
          in.
          <SimilarDrinks drinks={similar} quantity={quantity} areButtons={areButtons} />
        </Callout>
      );
    case 'key_reused':
      return (
        <Callout title="You already placed an order here">
          This one is different, so it wasn't sent. Place it again if you want both.
        </Callout>
      );
    case 'offline':
      return (
        <Callout title="You are offline">
          Your order was not placed, and nothing will be charged. What you typed stays here: place it when you
          are back.
        </Callout>
      );
    case 'unanswered':
      return (
        <Callout title="We got no answer">
          <Reason key={failure.reason} text={failure.reason} isToasted={isToasted} />
          What you typed is still here. If your order reached us after all, you get that one and not a second.
        </Callout>
      );
    case 'fixed':
      return <Callout title="Your order was not changed">{sentence(failure.reason)}</Callout>;
    case 'other':
      return (
        <Callout title="Your order was not placed">
          <Reason key={failure.reason} text={failure.reason} isToasted={isToasted} />
          What you typed is still here.
        </Callout>
      );
  }
}

export const leftTitle = (left: number): string => `Only ${left} left`;

/** @param ownUnits reserved by the customer's own unpaid order, which do not count as left */
export const describeLeft = (left: number, ownUnits: number): string =>
  ownUnits > 0
    ? `Your unpaid order already holds ${ownUnits}, and ${left} more can be ordered.`
    : 'That is all we have right now.';

export const describeOwn = (units: number): string =>
  `The last ${units === 1 ? 'one is' : `${units} are`} in your own unpaid order.`;

const sentence = (words: string): string => (/[.!?]$/.test(words) ? words : `${words}.`);

export function Callout({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div role="status" className="rounded-lg border border-ember-200 bg-ember-50 px-5 py-3.5 text-sm">
      <p className="text-base font-bold">{title}</p>
      <div>{children}</div>
    </div>
  );
}

export function CalloutAction({ onClick, children }: { onClick(): void; children: ReactNode }) {
  return (
    <button
      type="button"
      onClick={onClick}
      className="-mx-2 -mb-2 block min-h-11 rounded-md px-2 font-bold text-ember-700 underline underline-offset-2 hover:text-ember-800"
    >
      {children}
    </button>
  );
}
