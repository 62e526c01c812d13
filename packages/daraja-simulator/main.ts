// Runs the simulator as its own process, configured by environment variables.

import type { SimulatorOptions } from './settings.ts';
import { startDarajaSimulator } from './simulator.ts';

const texts = {
  host: 'DARAJA_HOST',
  ledgerFile: 'DARAJA_LEDGER_FILE',
  consumerKey: 'DARAJA_CONSUMER_KEY',
  consumerSecret: 'DARAJA_CONSUMER_SECRET',
  shortcode: 'DARAJA_SHORTCODE',
  passkey: 'DARAJA_PASSKEY',
  merchantName: 'DARAJA_MERCHANT_NAME',
  tillNumber: 'DARAJA_TILL_NUMBER',
  initiatorName: 'DARAJA_INITIATOR_NAME',
  initiatorPassword: 'DARAJA_INITIATOR_PASSWORD',
  onlyPhone: 'DARAJA_ONLY_PHONE',
  c2bVersion: 'DARAJA_C2B_VERSION',
} as const satisfies { [Key in keyof SimulatorOptions]: string };

const numbers = {
  decisionDelayMs: 'DARAJA_DECISION_DELAY_MS',
  lateSuccessDelayMs: 'DARAJA_LATE_SUCCESS_DELAY_MS',
  promptTimeoutMs: 'DARAJA_PROMPT_TIMEOUT_MS',
  repeatRuleMs: 'DARAJA_REPEAT_RULE_MS',
  confirmationDelayMs: 'DARAJA_CONFIRMATION_DELAY_MS',
  resultDelayMs: 'DARAJA_RESULT_DELAY_MS',
} as const satisfies { [Key in keyof SimulatorOptions]: string };

const DEFAULT_PORT = 4010;

function readWholeNumber(variable: string): number | undefined {
  const text = process.env[variable]?.trim() ?? '';
  if (text === '') return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new Error(`${variable} must be a whole number, but is "${text}".`);
  return Number(text);
}

function readOptions(): SimulatorOptions {
  const options: Record<string, string | number> = {
    port: readWholeNumber('DARAJA_PORT') ?? DEFAULT_PORT,
  };
  for (const [option, variable] of Object.entries(texts)) {
    const text = process.env[variable]?.trim();
    if (text) options[option] = text;
  }
  for (const [option, variable] of Object.entries(numbers)) {
    const number = readWholeNumber(variable);
    if (number !== undefined) options[option] = number;
  }
  return options;
}

try {
  const simulator = await startDarajaSimulator(readOptions());
  process.stdout.write(
    `Simulated Daraja on ${simulator.url} (no money moves). Phone: ${simulator.url}/phone\n`,
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void simulator.close());
  }
} catch (problem) {
  const { code, message } = problem as NodeJS.ErrnoException;
  const port = process.env.DARAJA_PORT ?? DEFAULT_PORT;
  const taken = `Port ${port} is taken; set SIMULATOR_PORT to a free one, for the shop, too.`;
  process.stderr.write(`${code === 'EADDRINUSE' ? taken : (message ?? String(problem))}\n`);
  process.exitCode = 1;
}
