// A window in which Daraja answers nothing but web pages, as when M-PESA is being worked on.
import type { SimulatorClock } from './clock.ts';
import type { Ledger } from './ledger.ts';
import { forbiddenPage, unavailablePage } from './spoiled-answers.ts';

/** The page that answers everything at this moment; null outside the window. */
export function maintenancePage(clock: SimulatorClock, ledger: Ledger): Response | null {
  const window = ledger.maintenance();
  const now = clock.now();
  if (!window || now < window.from || now >= window.until) return null;
  return window.status === 403 ? forbiddenPage() : unavailablePage();
}
