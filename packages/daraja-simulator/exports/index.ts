// Simulated M-PESA.

export { certificate } from '../certificate.ts';
export { UnreadableLedger } from '../ledger/ledger-file.ts';
export { drawReceipt } from '../ledger/receipt.ts';
export { writeCallbackBody } from '../requests/callbacks.ts';
export { merchantRefusals } from '../requests/daraja-errors.ts';
export { readPushRequest } from '../requests/push-request.ts';
export type { Fields } from '../requests/request-fields.ts';
export { defaultCredentials, defaultMerchant, type SimulatorOptions, withDefaults } from '../settings.ts';
export { startDarajaSimulator } from '../simulator.ts';
