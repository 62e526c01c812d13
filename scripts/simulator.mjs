// `npm run simulator`: the M-PESA simulator as its own process, on the port and the ledger of the shop.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { importProgram, readOwnSettings, root } from './build/prepare.mjs';

readOwnSettings();
const { env } = process;
const dataDir = resolve(root, env.DATA_DIR?.trim() || 'data');
mkdirSync(dataDir, { recursive: true, mode: 0o700 });
// As in server/start/settings/config.ts: processes on one database share a simulator.
const port = env.DATABASE_URL?.trim() ? 4010 : Number(env.PORT?.trim() || 3000) + 1;
env.DARAJA_PORT ||= env.SIMULATOR_PORT?.trim() || String(port);
env.DARAJA_LEDGER_FILE ||= join(dataDir, 'daraja-simulator.jsonl');
await importProgram('simulator');
