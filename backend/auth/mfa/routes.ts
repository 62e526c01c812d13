// The calls for second factors.
import type { Route } from '../context.ts';

export const mfaRoutes: readonly Route[] = [];
