// What the order form tells beside its button: why an order was not placed, and the way on.
import type { ReactNode } from 'react';
import { formatKsh } from '../../../domain/money.ts';
import type { OrderFailure } from './place-order.ts';

interface FailureCalloutProps {
  failure: OrderFailure | null;
  /** False once the cause is gone. */
  isCurrent: boolean;
  onQuantityChange?: ((quantity: number) => void) | undefined;
}

export function FailureCallout({ failure, isCurrent, onQuantityChange }: FailureCalloutProps) {
  if (!failure || failure.field || !isCurrent) return null;
  return <div className="mb-3">{describeFailure(failure, onQuantityChange)}</div>;
}

function describeFailure(failure: OrderFailure, onQuantityChange: FailureCalloutProps['onQuantityChange']) {
  switch (failure.kind) {
    case 'total_changed':
      return (
        <Callout title={`The new total is ${formatKsh(failure.total)}`}>
          {failure.message}. If it is fine with you, place the order again.
        </Callout>
      );
    case 'not_enough_stock':
      return (
        <Callout title={`Only ${failure.left} left`}>
          Somebody was thirsty before you.
          {onQuantityChange ? (
            <CalloutAction onClick={() => onQuantityChange(failure.left)}>
              Order {failure.left} instead
            </CalloutAction>
          ) : null}
        </Callout>
      );
    case 'out_of_stock':
      return (
        <Callout title="Just sold out">
          None are left right now. Nothing was ordered and nothing will be charged.
        </Callout>
      );
    case 'key_reused':
      return (
        <Callout title="You have ordered from this page already">
          That order arrived, with other details; this one was not placed. Place it again if you want both.
        </Callout>
      );
    case 'offline':
      return (
        <Callout title="You are offline">
          Your order was not placed, and nothing will be charged. What you typed stays here: place it when you
          are back.
        </Callout>
      );
    case 'other':
      return (
        <Callout title="Your order was not placed">{failure.text} What you typed is still here.</Callout>
      );
  }
}

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
