import { expect, test } from 'vitest';
import { supportIn } from './device-notifications.ts';

const phone = {
  isSecure: true,
  isApple: false,
  isInstalled: false,
  hasServiceWorkers: true,
  permission: 'default',
} as const;

test.each([
  ['not-asked', {}],
  ['allowed', { permission: 'granted' }],
  ['denied', { permission: 'denied' }],
  ['unsupported', { permission: null }],
  ['unsupported', { hasServiceWorkers: false }],
  ['insecure', { isSecure: false, permission: 'granted' }],
  ['not-installed', { isApple: true, permission: null }],
  ['not-asked', { isApple: true, isInstalled: true }],
  ['unsupported', { isApple: true, isInstalled: true, permission: null }],
] as const)('notifications of a device are %s with %j', (expected, change) => {
  expect(supportIn({ ...phone, ...change })).toBe(expected);
});
