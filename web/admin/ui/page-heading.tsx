// The head of a screen below another one.
import type { ReactNode } from 'react';
import { Link } from 'react-router';

interface Up {
  to: string;
  name: string;
}

/** The way to the screen above. */
export function UpLink({ to, name }: Up) {
  return (
    <p className="text-sm print:hidden">
      <Link to={to} className="tap font-semibold underline">
        {name}
      </Link>
    </p>
  );
}

/** The way up, the name of the screen, what it is for, and what can be done on it. */
export function PageHeading({
  up,
  heading,
  children,
  actions,
}: {
  up: Up;
  heading: string;
  children?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <div className="flex flex-wrap items-end justify-between gap-x-4 gap-y-2">
      <div>
        <UpLink {...up} />
        <h1 className="text-3xl">{heading}</h1>
        {children ? <p className="mt-1 max-w-text text-ink-soft">{children}</p> : null}
      </div>
      {actions ? <div className="flex flex-wrap gap-3">{actions}</div> : null}
    </div>
  );
}
