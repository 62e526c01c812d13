// A maintenance window, in which Daraja answers every request with a web page.
import type { SimulatorClock } from './clock.ts';
import { forbiddenPage, unavailablePage } from './endpoint-faults.ts';
import type { Ledger } from './ledger.ts';

/** The response to every request during the window; null outside it. */
export function maintenancePage(clock: SimulatorClock, ledger: Ledger): Response | null {
  const window = ledger.maintenance();
  const now = clock.now();
  if (!window || now < window.from || now >= window.until) return null;
  return window.status === 403 ? forbiddenPage() : unavailablePage();
}
