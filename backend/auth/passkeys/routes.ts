// The calls for passkeys.
import type { Route } from '../context.ts';

export const passkeyRoutes: readonly Route[] = [];
