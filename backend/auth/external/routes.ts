// The calls that involve somebody else's word on who a person is: providers, companies, wallets.
import type { Grants, Route } from '../context.ts';

export const externalRoutes: readonly Route[] = [];

export const externalGrants: Grants = {};
