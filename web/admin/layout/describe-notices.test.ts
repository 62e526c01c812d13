import { expect, test } from 'vitest';
import { health } from '../../testing/payment-health.ts';
import { describeNotices } from './describe-notices.ts';

const pause = (code: string, description: string | null, is_refused: boolean) => ({
  ...health,
  pause: { code, description, is_refused, since: '2026-11-21T09:00:00Z', until: '2026-11-21T09:05:00Z' },
});

test('shows nothing while all is well or unknown', () => {
  expect(describeNotices(health)).toEqual([]);
  expect(describeNotices(null)).toEqual([]);
  // The menu, Today and the dashboard count what waits: above the lists it would push their rows down.
  expect(describeNotices({ ...health, refunds_to_approve: 1, refunds_to_approve_by_me: 1 })).toEqual([]);
});

test.each([
  ['404.001.03', 'Invalid Access Token', true, /MPESA_CONSUMER_KEY/],
  ['400.002.02', 'Bad Request - Invalid CallBackURL', true, /PUBLIC_URL/],
  ['2001', 'The initiator information is invalid.', true, /MPESA_PASSKEY/],
  ['2028', null, false, /MPESA_TRANSACTION_TYPE/],
  ['999.1', 'Something new', true, /Something new/],
])(
  'names the setting to check after %s, %s, also when the pause itself is over',
  (code, description, isRefused, text) => {
    expect(describeNotices(pause(code, description, isRefused))).toMatchObject([
      {
        tone: 'danger',
        title: expect.stringMatching(/^Customers get no M-PESA prompts since /),
        text: expect.stringMatching(text),
        to: '/admin/settings/payments',
      },
    ]);
  },
);
