// The process's check of a caller's role, by the services that verify the token.
import { createFairShare } from '@jani-juice/backend/limits';
import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenServices, openServices } from '../../scripts/tests/open-services.ts';
import { type Clients, openClients } from './clients.ts';
import { readConfig } from './settings/config.ts';

describe.each(testDatabases())('on %s', (kind) => {
  let services: OpenServices;
  let clients: Clients;
  beforeAll(async () => {
    services = await openServices(kind);
    const { publishable, secret } = services.keys;
    const config = {
      ...readConfig({}, services.folder),
      supabase: { url: new URL(services.url).origin, publishableKey: publishable, secretKey: secret },
    };
    clients = openClients(config, services.keys, null, createFairShare(kind));
  });
  afterAll(() => services.close());

  const memberAs = async (role: string) => {
    const member = await services.person('staff');
    await services.database.query('update public.admin_profiles set role = $2 where user_id = $1', [
      member.id,
      role,
    ]);
    return member;
  };

  test('a role has its areas, and no others', async () => {
    const may = async (token: string) => [
      await clients.mayStaff(token, 'settings'),
      await clients.mayStaff(token, 'orders'),
      await clients.mayStaff(token, 'panel'),
    ];
    expect(await may((await memberAs('owner')).token)).toEqual([true, true, true]);
    expect(await may((await memberAs('staff')).token)).toEqual([false, true, true]);
    expect(await may((await memberAs('counter')).token)).toEqual([false, false, true]);
  });

  test.each(['customer', 'inactive staff', 'half-way staff'] as const)(
    'a token of %s has none',
    async (who) => {
      expect(await clients.mayStaff((await services.person(who)).token, 'panel')).toBe(false);
    },
  );

  test('a token that the services did not sign has none, nor has the end of a session', async () => {
    const owner = await memberAs('owner');
    const [head, , signature] = owner.token.split('.');
    const forged = Buffer.from(JSON.stringify({ sub: owner.id, role: 'authenticated' })).toString(
      'base64url',
    );
    for (const token of ['', 'no token', services.keys.publishable, [head, forged, signature].join('.')]) {
      expect(await clients.mayStaff(token, 'panel'), token).toBe(false);
    }
    const ended = await services.token({ sub: owner.id, session_id: crypto.randomUUID() });
    expect(await clients.mayStaff(ended, 'panel')).toBe(false);
  });
});
