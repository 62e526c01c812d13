// Routes of passkeys. None when the setting is off.

import { AuthError } from '../auth-error.ts';
import type { AuthContext, AuthRequest, Route } from '../context.ts';
import { deleteOf, deleteOwn, listOf, listOwn, renameOwn } from './manage.ts';
import { offerRegistration, verifyRegistration } from './registration.ts';
import { offerSignIn, verifySignIn } from './sign-in.ts';

function whenEnabled<Request extends AuthRequest>(
  handle: (request: Request, context: AuthContext) => Promise<Response>,
): (request: Request, context: AuthContext) => Promise<Response> {
  return async (request, context) => {
    if (!context.settings.passkeys.isEnabled) {
      throw new AuthError(404, 'passkey_disabled', 'Passkeys are disabled');
    }
    return handle(request, context);
  };
}

const ofPerson = { needs: 'user', refusesAnonymous: true } as const;

export const passkeyRoutes: readonly Route[] = [
  {
    ...ofPerson,
    method: 'POST',
    pattern: '/passkeys/registration/options',
    handle: whenEnabled(offerRegistration),
  },
  {
    ...ofPerson,
    method: 'POST',
    pattern: '/passkeys/registration/verify',
    handle: whenEnabled(verifyRegistration),
  },
  {
    needs: 'nothing',
    method: 'POST',
    pattern: '/passkeys/authentication/options',
    handle: whenEnabled(offerSignIn),
  },
  {
    needs: 'nothing',
    method: 'POST',
    pattern: '/passkeys/authentication/verify',
    handle: whenEnabled(verifySignIn),
  },
  { ...ofPerson, method: 'GET', pattern: '/passkeys', handle: whenEnabled(listOwn) },
  { ...ofPerson, method: 'PATCH', pattern: '/passkeys/:passkey_id', handle: whenEnabled(renameOwn) },
  { ...ofPerson, method: 'DELETE', pattern: '/passkeys/:passkey_id', handle: whenEnabled(deleteOwn) },
  { needs: 'admin', method: 'GET', pattern: '/admin/users/:user_id/passkeys', handle: whenEnabled(listOf) },
  {
    needs: 'admin',
    method: 'DELETE',
    pattern: '/admin/users/:user_id/passkeys/:passkey_id',
    handle: whenEnabled(deleteOf),
  },
];
