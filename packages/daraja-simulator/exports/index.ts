// Simulated M-PESA.
export { writeCallbackBody } from '../callbacks.ts';
export { certificate } from '../certificate.ts';
export { merchantRefusals } from '../daraja-errors.ts';
export { UnreadableLedger } from '../ledger-file.ts';
export { readPushRequest } from '../push-request.ts';
export { drawReceipt } from '../receipt.ts';
export type { Fields } from '../request-fields.ts';
export { defaultCredentials, defaultMerchant, type SimulatorOptions, withDefaults } from '../settings.ts';
export { startDarajaSimulator } from '../simulator.ts';
