// Routes of second factors.
import type { Route } from '../context.ts';
import { changeFactorOf, deleteFactorOf, listFactors } from './admin.ts';
import { challengeFactor } from './challenge.ts';
import { enrolFactor } from './enrol.ts';
import { unenrolFactor } from './unenrol.ts';
import { verifyFactor } from './verify.ts';

const ofPerson = { needs: 'user', refusesAnonymous: true } as const;

export const mfaRoutes: readonly Route[] = [
  { ...ofPerson, method: 'POST', pattern: '/factors', handle: enrolFactor },
  { ...ofPerson, method: 'POST', pattern: '/factors/:factor_id/challenge', handle: challengeFactor },
  { ...ofPerson, method: 'POST', pattern: '/factors/:factor_id/verify', handle: verifyFactor },
  { ...ofPerson, method: 'DELETE', pattern: '/factors/:factor_id', handle: unenrolFactor },
  { needs: 'admin', method: 'GET', pattern: '/admin/users/:user_id/factors', handle: listFactors },
  {
    needs: 'admin',
    method: 'DELETE',
    pattern: '/admin/users/:user_id/factors/:factor_id',
    handle: deleteFactorOf,
  },
  {
    needs: 'admin',
    method: 'PUT',
    pattern: '/admin/users/:user_id/factors/:factor_id',
    handle: changeFactorOf,
  },
];
