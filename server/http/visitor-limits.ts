// Limits of one table request (docs/decisions/service-settings.md): several times what any page of the shop needs.
import type { SizeLimits } from '@jani-juice/backend/limits';

/** Of a visitor. */
export const visitorLimits: SizeLimits = {
  maxUrlLength: 4096,
  maxBodyBytes: 100_000,
  maxKeys: 100,
  maxInsertedRows: 1,
  maxSelected: 60,
  maxEmbeds: 6,
  maxFilters: 30,
  maxListMembers: 100,
  maxOrders: 10,
  maxOffset: 10_000,
  maxSearchLength: 100,
  maxSearchWords: 10,
  maxPatternStates: 50,
  maxRows: 1000,
  maxAnswerBytes: 2_000_000,
  allowsRepeats: false,
};

/** Of a signed-in caller: staff lists and exports read 1,000 rows at a time. */
export const signedInLimits: Partial<SizeLimits> = {
  maxAnswerBytes: 16_000_000,
  allowsRepeats: false,
};
