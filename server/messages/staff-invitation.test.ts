import { expect, test } from 'vitest';
import type { OutgoingMail } from './messages.ts';
import { convertInvitations, writeInvitation } from './staff-invitation.ts';

const publicUrl = 'https://juice.example';
const pageLink = `${publicUrl}/auth/v1/verify/confirm?token_hash=abc&type=invite`;
const link = `${publicUrl}/auth/v1/verify?token=abc&type=invite`;
const invitation = {
  to: 'njeri@mail.example',
  subject: 'Your invitation',
  text: 'x',
  kind: 'invite',
  pageLink,
  link,
} as const;

test('names the inviter and the shop, and contains the link', () => {
  const mail = writeInvitation(
    { ...invitation, data: { invited_by: 'Amina Otieno' } },
    'Jani Juice',
    publicUrl,
  );
  expect(mail.subject).toBe("Amina Otieno invited you to Jani Juice's staff panel");
  expect(mail.text).toContain(`${mail.subject}.`);
  expect(mail.text).toContain(`\n${pageLink}\n`);
  expect(`${mail.text} ${mail.html}`, 'a link that opening uses up').not.toContain('/verify?');
  expect(mail.text).toContain(`${publicUrl}/admin/reset-password`);
  expect(mail.html).toContain('>Set your password</a>');
  expect(mail).not.toHaveProperty('data');
});

test.each([
  ['nothing', {}],
  ['a blank', { invited_by: ' \n ' }],
  ['no text', { invited_by: 7 }],
])('names only the shop when the inviter is %s', (_, data) => {
  const { subject } = writeInvitation({ ...invitation, data }, 'Jani Juice', publicUrl);
  expect(subject).toBe("You are invited to Jani Juice's staff panel");
});

test('keeps the inviter in one line', () => {
  const data = { invited_by: `Amina\r\nBcc: all@mail.example ${'x'.repeat(1000)}` };
  const { subject } = writeInvitation({ ...invitation, data }, 'Jani Juice', publicUrl);
  expect(subject).toMatch(/^Amina Bcc: all@mail\.example x+ invited you to/);
  expect(subject.length).toBeLessThan(130);
});

test('does not change other messages', async () => {
  const sent: OutgoingMail[] = [];
  const messages = convertInvitations(
    {
      missingProvider: { mail: null, text: null },
      sendMail: async (mail) => void sent.push(mail),
      sendText: async () => undefined,
    },
    { publicUrl, readName: async () => 'Jani Juice' },
  );
  const recovery = { ...invitation, kind: 'recovery' } as const;
  await messages.sendMail(recovery);
  await messages.sendMail(invitation);
  expect(sent[0]).toEqual(recovery);
  expect(sent[1]?.subject).toContain('Jani Juice');
});
