// A maintenance window, in which Daraja answers every request with a web page.

import { forbiddenPage, unavailablePage } from './faults/endpoint-faults.ts';
import type { SimulatorClock } from './ledger/clock.ts';
import type { Ledger } from './ledger/ledger.ts';

/** The response to every request during the window; null outside it. */
export function maintenancePage(clock: SimulatorClock, ledger: Ledger): Response | null {
  const window = ledger.maintenance();
  const now = clock.now();
  if (!window || now < window.from || now >= window.until) return null;
  return window.status === 403 ? forbiddenPage() : unavailablePage();
}
