// A term and its description in a `dl`.
import type { ReactNode } from 'react';

export function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div className="grid gap-1">
      <dt className="text-sm font-semibold text-ink-soft">{term}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}
