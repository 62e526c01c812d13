// The layout of pages before sign-in: the shop's background and a card.

import { StaffMark } from '../layout/staff-mark.tsx';
import { useStoreName } from '../layout/use-store-name.ts';

interface SignInLayoutProps {
  /** Null: the panel's own name. */
  title?: string | null;
  subtitle: string;
  children: React.ReactNode;
}

export function SignInLayout({ title = null, subtitle, children }: SignInLayoutProps) {
  const storeName = useStoreName();
  return (
    <main className="relative grid min-h-dvh place-items-center overflow-hidden bg-(image:--gradient-dusk) px-4 py-10">
      <div className="relative grid w-full max-w-md gap-6 rounded-xl bg-paper p-6 shadow-xl sm:p-9">
        <header className="grid justify-items-center gap-1 text-center">
          <span className="mb-3 grid size-16 place-items-center rounded-pill bg-dusk-900">
            <StaffMark className="size-9" />
          </span>
          <h1 className="text-2xl">{title ?? `${storeName} Admin`}</h1>
          <p className="text-sm text-ink-soft">{subtitle}</p>
        </header>
        {children}
      </div>
    </main>
  );
}
