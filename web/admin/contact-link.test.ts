import { expect, test } from 'vitest';
import { mailTo } from './contact-link.tsx';

test('an address that a stranger wrote names nobody else to write to', () => {
  // What the shop takes for an address: one sign @, a dot after it, no spaces.
  const written = 'amina@mail.example?bcc=spy%40mail.example&body=Send.the.money';
  expect(mailTo(written, 'Your order')).toBe(
    'mailto:amina@mail.example%3Fbcc%3Dspy%2540mail.example%26body%3DSend.the.money?subject=Your%20order',
  );
});
