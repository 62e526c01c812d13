// A titled section of a screen.
import { useId } from 'react';

interface CardProps {
  title: string;
  description?: React.ReactNode;
  children: React.ReactNode;
}

export function Card({ title, description, children }: CardProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-lg border border-line bg-card p-5 shadow-sm md:p-6">
      <h2 id={id} className="text-xl">
        {title}
      </h2>
      {description ? <p className="mt-1 max-w-text text-sm text-ink-soft">{description}</p> : null}
      <div className="mt-4">{children}</div>
    </section>
  );
}
