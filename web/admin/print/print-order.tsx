// Prints an order. The code of the printouts is loaded on use.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { showToast } from '../../ui/toasts/toasts.tsx';
import type { WholeOrder } from '../orders/order-queries.ts';
import type OrderPapers from './order-papers.tsx';
import type { Paper } from './order-papers.tsx';

const papers = [
  ['slip', 'Packing slip'],
  ['receipt', 'Receipt'],
] as const;

export function PrintOrder({ order }: { order: WholeOrder }) {
  const [printing, setPrinting] = useState<{ paper: Paper; Printout: typeof OrderPapers } | null>(null);

  async function print(paper: Paper) {
    try {
      const { default: Printout } = await import('./order-papers.tsx');
      setPrinting({ paper, Printout });
    } catch (error) {
      console.warn('The printout could not be loaded', error);
      showToast({
        kind: 'error',
        title: 'Error',
        text: 'Failed to print. Please check the connection and try again.',
      });
    }
  }
  return (
    <div className="flex flex-wrap items-center gap-2">
      <span aria-hidden="true" className="text-ink-soft">
        Print
      </span>
      {papers.map(([paper, label]) => (
        <Button key={paper} tone="quiet" onClick={() => void print(paper)} className="px-4!">
          <span className="sr-only">Print </span>
          {label}
        </Button>
      ))}
      {printing ? (
        <printing.Printout orders={[order]} paper={printing.paper} onPrinted={() => setPrinting(null)} />
      ) : null}
    </div>
  );
}
