// The simulated M-PESA of a shop without real payments.
import { join } from 'node:path';
import { UnusableAddress } from '@jani-juice/backend/http';
import { startDarajaSimulator } from '@jani-juice/daraja-simulator';
import type { Setup } from '../../domain/mpesa/payment-setup.ts';
import type { Store } from '../../supabase/store.ts';
import type { Job } from '../jobs/jobs.ts';
import type { Log } from '../monitoring/log.ts';
import type { Config } from './settings/config.ts';

/**
 * Starts the simulator, or uses the one that another process of this shop has started.
 * @throws UnusableAddress when another program has its port
 */
export async function startSimulator(
  config: Config,
  log: Log,
): Promise<{ url: string; close(): Promise<void> }> {
  const port = config.mpesa.environment === 'simulator' ? config.mpesa.port : 0;
  try {
    return await startDarajaSimulator({
      port,
      host: '127.0.0.1',
      ledgerFile: join(config.dataDir, 'daraja-simulator.jsonl'),
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    // Another process of this shop may have started it.
    const url = `http://127.0.0.1:${port}`;
    const answer = await fetch(`${url}/simulator/ledger`).catch(() => null);
    if (!answer?.ok) throw new UnusableAddress(`Port ${port} is taken; set SIMULATOR_PORT to a free one.`);
    log.info({ url }, 'the simulator already runs');
    return { url, close: async () => {} };
  }
}

/**
 * Registers the C2B URLs with the simulator at each start, because the port may change. For the real M-PESA the operator does it
 * once (docs/operating.md).
 */
export function registerAtSimulator(store: Store): Job {
  return {
    name: 'register at the simulator',
    everyMs: 6 * 60 * 60 * 1000,
    firstAfterMs: 0,
    async run() {
      const { data } = await store.functions.invoke<{ setup?: Setup }>('mobile-money', {
        body: { action: 'describe-setup' },
      });
      // The function of a hosted project may use the real M-PESA.
      if (data?.setup?.environment !== 'simulator') return;
      const { error } = await store.functions.invoke('mobile-money', { body: { action: 'register-till' } });
      if (error) throw error;
    },
  };
}
