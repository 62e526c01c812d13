// A part of an opened order, with its title.
import { type ReactNode, useId } from 'react';

export function Part({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-lg border border-line bg-card px-4 py-3 md:py-4">
      <h3 id={id} className="mb-2 font-display text-lg font-bold">
        {title}
      </h3>
      {children}
    </section>
  );
}
