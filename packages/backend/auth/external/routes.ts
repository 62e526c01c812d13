// Routes of external identities: providers, companies, wallets.
import type { Grants, Route } from '../context.ts';
import { unlinkIdentity } from './identities.ts';
import { pkceGrant } from './pkce-grant.ts';
import { idTokenGrant } from './providers/id-token-grant.ts';
import { authorize, authorizeLink, callback } from './providers/sign-in-page.ts';
import { consumeAssertion, samlMetadata, startSso } from './sso/sso.ts';
import {
  changeSsoProvider,
  createSsoProvider,
  deleteSsoProvider,
  listSsoProviders,
  readSsoProvider,
} from './sso/sso-providers.ts';
import { web3Grant } from './wallets/web3-grant.ts';

/** Maximum bytes of a body with a provider's metadata; the same as for fetched metadata. */
const maxMetadataBody = 1_048_576;

export const externalRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/authorize', needs: 'nothing', handle: authorize },
  { method: 'GET', pattern: '/callback', needs: 'nothing', handle: callback },
  { method: 'POST', pattern: '/callback', needs: 'nothing', handle: callback },
  { method: 'GET', pattern: '/user/identities/authorize', needs: 'user', handle: authorizeLink },
  { method: 'DELETE', pattern: '/user/identities/:identity_id', needs: 'user', handle: unlinkIdentity },
  { method: 'POST', pattern: '/sso', needs: 'nothing', handle: startSso },
  { method: 'GET', pattern: '/sso/saml/metadata', needs: 'nothing', handle: samlMetadata },
  {
    method: 'POST',
    pattern: '/sso/saml/acs',
    needs: 'nothing',
    maxBodyBytes: 512 * 1024,
    handle: consumeAssertion,
  },
  { method: 'GET', pattern: '/admin/sso/providers', needs: 'admin', handle: listSsoProviders },
  {
    method: 'POST',
    pattern: '/admin/sso/providers',
    needs: 'admin',
    maxBodyBytes: maxMetadataBody,
    handle: createSsoProvider,
  },
  { method: 'GET', pattern: '/admin/sso/providers/:idp_id', needs: 'admin', handle: readSsoProvider },
  {
    method: 'PUT',
    pattern: '/admin/sso/providers/:idp_id',
    needs: 'admin',
    maxBodyBytes: maxMetadataBody,
    handle: changeSsoProvider,
  },
  { method: 'DELETE', pattern: '/admin/sso/providers/:idp_id', needs: 'admin', handle: deleteSsoProvider },
];

export const externalGrants: Grants = { pkce: pkceGrant, id_token: idTokenGrant, web3: web3Grant };
