// Prints an order. The code of the printouts is loaded on use.
import { lazy, Suspense, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import type { WholeOrder } from '../orders/order-queries.ts';
import type { Paper } from './order-papers.tsx';

const OrderPaper = lazy(() => import('./order-papers.tsx'));
const papers = [
  ['slip', 'Packing slip'],
  ['receipt', 'Receipt'],
] as const;

export function PrintOrder({ order }: { order: WholeOrder }) {
  const [printing, setPrinting] = useState<Paper | null>(null);
  return (
    <div className="flex flex-wrap items-center gap-2">
      <span aria-hidden="true" className="text-ink-soft">
        Print
      </span>
      {papers.map(([paper, label]) => (
        <Button key={paper} tone="quiet" onClick={() => setPrinting(paper)} className="px-4!">
          <span className="sr-only">Print </span>
          {label}
        </Button>
      ))}
      {printing ? (
        <Suspense>
          <OrderPaper order={order} paper={printing} onPrinted={() => setPrinting(null)} />
        </Suspense>
      ) : null}
    </div>
  );
}
