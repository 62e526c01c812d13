// The calls that involve somebody else's word on who a person is: providers, companies, wallets.
import type { Grants, Route } from '../context.ts';
import { idTokenGrant } from './id-token-grant.ts';
import { unlinkIdentity } from './identities.ts';
import { pkceGrant } from './pkce-grant.ts';
import { authorize, authorizeLink, callback } from './sign-in-page.ts';
import { web3Grant } from './web3-grant.ts';

export const externalRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/authorize', needs: 'nothing', handle: authorize },
  { method: 'GET', pattern: '/callback', needs: 'nothing', handle: callback },
  { method: 'POST', pattern: '/callback', needs: 'nothing', handle: callback },
  { method: 'GET', pattern: '/user/identities/authorize', needs: 'user', handle: authorizeLink },
  { method: 'DELETE', pattern: '/user/identities/:identity_id', needs: 'user', handle: unlinkIdentity },
];

export const externalGrants: Grants = { pkce: pkceGrant, id_token: idTokenGrant, web3: web3Grant };
