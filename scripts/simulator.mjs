// `npm run simulator`: the M-PESA simulator as its own process, on the port and the ledger of the shop.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { importProgram, readOwnSettings, root } from './build/prepare.mjs';

readOwnSettings();
const { env } = process;
const dataDir = resolve(root, env.DATA_DIR?.trim() || 'data');
mkdirSync(dataDir, { recursive: true, mode: 0o700 });
// As in server/start/settings/config.ts: processes on one database share a simulator.
const settings = ['DARAJA_PORT', 'SIMULATOR_PORT', ...(env.DATABASE_URL?.trim() ? [] : ['PORT'])];
const setting = settings.find((name) => env[name]?.trim());
if (setting === undefined) env.DARAJA_PORT = env.DATABASE_URL?.trim() ? '4010' : '3001';
else {
  const text = env[setting].trim();
  // Here, where it is known which of them was set.
  if (!/^\d{1,5}$/.test(text)) {
    process.stderr.write(`The simulator was not started. ${setting} is "${text}", but it takes a port.\n`);
    process.exit(1);
  }
  env.DARAJA_PORT = setting === 'PORT' ? String(Number(text) + 1) : text;
}
env.DARAJA_LEDGER_FILE ||= join(dataDir, 'daraja-simulator.jsonl');
await importProgram('simulator');
