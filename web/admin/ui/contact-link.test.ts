import { expect, test } from 'vitest';
import { mailTo } from './contact-link.tsx';

test('a stranger’s address adds no other recipient', () => {
  // The shop accepts addresses with one @, a dot after it, and no spaces.
  const written = 'amina@mail.example?bcc=spy%40mail.example&body=Send.the.money';
  expect(mailTo(written, 'Your order')).toBe(
    'mailto:amina@mail.example%3Fbcc%3Dspy%2540mail.example%26body%3DSend.the.money?subject=Your%20order',
  );
});
