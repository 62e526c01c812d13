// Limits of one table request of a visitor (docs/decisions/fair-share.md): several times what any page of the shop needs.
import type { SizeLimits } from '../backend/data/request-size.ts';

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
};
