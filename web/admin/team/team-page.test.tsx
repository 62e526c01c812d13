// The team: invitations, roles and access, as an owner changes them.
import { randomUUID } from 'node:crypto';
import { screen, waitFor, within } from '@testing-library/dom';
import { Secret, TOTP } from 'otpauth';
import { expect, test } from 'vitest';
import { type Account, asOwner, makeAccount, sessionOf } from '../../../e2e/staff-member.ts';
import { type OpenScreen, openScreen, readRows, shop } from '../../testing/staff-screens.tsx';

const rowOf = async (name: string) =>
  within((await screen.findByText(name, { selector: 'li span' })).closest('li') as HTMLElement);
const choose = async (opened: OpenScreen, name: string, action: string) => {
  await opened.press((await rowOf(name)).getByRole('button', { name: `More for ${name}` }));
  await opened.user.click(await screen.findByRole('menuitem', { name: action }));
};
const dialog = async () => within(await screen.findByRole('dialog'));
const profileOf = async (id: string) =>
  (await readRows<{ role: string; name: string; is_active: boolean }>(`admin_profiles?user_id=eq.${id}`))[0];

test('a colleague is invited by a link that the owner sends, until the invitation is withdrawn', async () => {
  const name = `Njeri ${randomUUID().slice(0, 8)}`;
  const email = `${randomUUID()}@jani.example`;
  const opened = await openScreen('/admin/settings/team', { on: 'phone' });
  await opened.press(await screen.findByRole('button', { name: 'Invite a colleague' }));
  const form = await dialog();
  await opened.press(form.getByRole('button', { name: 'Send the invitation' }));
  form.getByText('Please enter the name that colleagues see');
  form.getByText('Please enter a valid email address');
  await opened.user.type(form.getByLabelText(/^Name/), name);
  await opened.user.type(form.getByRole('textbox', { name: /^Email/ }), email);
  await opened.user.click(form.getByLabelText('Counter'));
  form.getByText(/^Today, deliveries and cash/);
  await opened.user.click(form.getByLabelText('I send the link'));
  await opened.press(form.getByRole('button', { name: 'Make the link' }));
  const link = await screen.findByText(/\/admin\/confirm\?token_hash=[\w-]+&type=invite$/);
  const first = link.textContent ?? '';
  const { href } = screen.getByRole('link', { name: 'Send by WhatsApp' }) as HTMLAnchorElement;
  expect(decodeURIComponent(href)).toContain(first);
  await opened.press(screen.getByRole('button', { name: 'Done' }));

  const invited = await rowOf(name);
  invited.getByText('Counter');
  invited.getByText(/^Invited /);
  const [profile] = await readRows<{ user_id: string; role: string }>(
    `admin_profiles?name=eq.${encodeURIComponent(name)}`,
  );
  expect(profile?.role).toBe('counter');

  await choose(opened, name, 'Withdraw the invitation');
  await opened.press((await dialog()).getByRole('button', { name: 'Withdraw it' }));
  await waitFor(() => expect(screen.queryByText(name, { selector: 'li span' })).toBeNull());
  expect(await profileOf(profile?.user_id ?? '')).toBeUndefined();
});

test('an address that has an account is refused beside the form', async () => {
  const taken = await makeAccount(shop, 'staff', randomUUID());
  const opened = await openScreen('/admin/settings/team', { expected: /could not be sent/ });
  await opened.press(await screen.findByRole('button', { name: 'Invite a colleague' }));
  const form = await dialog();
  await opened.user.type(form.getByLabelText(/^Name/), 'Somebody');
  await opened.user.type(form.getByRole('textbox', { name: /^Email/ }), taken.email);
  await opened.press(form.getByRole('button', { name: 'Send the invitation' }));
  await form.findByText(/^This address has an account already/);
});

test('a member gets a name and another role, loses access and is readmitted', async () => {
  const member = await makeAccount(shop, 'staff', randomUUID());
  const session = await sessionOf(shop, member);
  const opened = await openScreen('/admin/settings/team');
  await choose(opened, member.email, 'Change name or role');
  const form = await dialog();
  const name = `Brian ${randomUUID().slice(0, 8)}`;
  await opened.user.type(form.getByLabelText(/^Name/), name);
  await opened.user.click(form.getByLabelText('Staff'));
  await opened.press(form.getByRole('button', { name: 'Save' }));
  (await rowOf(name)).getByText('Staff');
  expect(await profileOf(member.id)).toMatchObject({ role: 'staff', name, is_active: true });

  await choose(opened, name, 'Take the access away');
  await opened.press((await dialog()).getByRole('button', { name: 'Take it away' }));
  await within(await screen.findByRole('region', { name: 'Without access' })).findByText(name, {
    selector: 'li span',
  });
  expect(await isStaff(session)).toBe(false);

  await choose(opened, name, 'Readmit');
  await within(await screen.findByRole('region', { name: 'Members' })).findByText(name, {
    selector: 'li span',
  });
  expect(await profileOf(member.id)).toMatchObject({ is_active: true });
});

/** Adds an authenticator app to an account. @returns a session that has passed it */
async function addSecondFactor(member: Account): Promise<{ access_token: string }> {
  const { access_token } = await sessionOf(shop, member);
  const { publishable } = await shop.keys();
  const post = async <Answer,>(path: string, body: object = {}): Promise<Answer> => {
    const answer = await fetch(`${shop.url}/auth/v1/factors${path}`, {
      method: 'POST',
      headers: {
        apikey: publishable,
        authorization: `Bearer ${access_token}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    });
    expect(answer.ok, `${path}: ${answer.status}`).toBe(true);
    return (await answer.json()) as Answer;
  };
  const { id, totp } = await post<{ id: string; totp: { secret: string } }>('', {
    factor_type: 'totp',
    friendly_name: 'Phone',
  });
  const challenge = await post<{ id: string }>(`/${id}/challenge`);
  const code = new TOTP({ secret: Secret.fromBase32(totp.secret) }).generate();
  return post(`/${id}/verify`, { challenge_id: challenge.id, code });
}
const isStaff = async ({ access_token }: { access_token: string }) =>
  (
    await fetch(`${shop.url}/rest/v1/rpc/is_admin`, {
      method: 'POST',
      headers: { apikey: (await shop.keys()).publishable, authorization: `Bearer ${access_token}` },
    })
  ).json();

test('the second factor of a colleague who lost the phone is reset, and the password alone signs in', async () => {
  const member = await makeAccount(shop, 'staff', randomUUID());
  await addSecondFactor(member);
  const session = await sessionOf(shop, member);
  expect(await isStaff(session)).toBe(false);
  const opened = await openScreen('/admin/settings/team');
  (await rowOf(member.email)).getByText(/Second factor on/);
  await choose(opened, member.email, 'Reset the second factor');
  await opened.press((await dialog()).getByRole('button', { name: 'Reset it' }));
  await (await rowOf(member.email)).findByText(/No second factor/);
  expect(await isStaff(session), 'the earlier session has ended').toBe(false);
  expect(await isStaff(await sessionOf(shop, member))).toBe(true);
  const [event] = await readRows<{ actor_email: string }>(
    `audit_events?kind=eq.second_factor_reset&subject=eq.${member.email}`,
  );
  expect(event?.actor_email).toBe(opened.account.email);
});

test('owners read who removed a second factor with a recovery code', async () => {
  const member = await makeAccount(shop, 'staff', randomUUID());
  const passed = await addSecondFactor(member);
  const call = async (procedure: string, { access_token }: { access_token: string }, args: object = {}) => {
    const answer = await fetch(`${shop.url}/rest/v1/rpc/${procedure}`, {
      method: 'POST',
      headers: {
        apikey: (await shop.keys()).publishable,
        authorization: `Bearer ${access_token}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(args),
    });
    return { status: answer.status, body: await answer.json() };
  };
  const { body: codes } = await call('make_recovery_codes', passed);
  const half = await sessionOf(shop, member);
  expect(await call('use_recovery_code', half, { code: 'AAAA-AAAA-AAAA' })).toMatchObject({
    status: 400,
    body: { details: 'recovery_code_wrong' },
  });
  expect(await call('use_recovery_code', half, { code: codes[0] })).toEqual({
    status: 200,
    body: { codes_left: 9 },
  });
  await openScreen('/admin/settings/team');
  const news = within(await screen.findByRole('list', { name: 'Second factors removed this week' }));
  const line = (await news.findByText(member.email)).closest('li');
  expect(line?.textContent).toMatch(/removed the second factor with a recovery code, .*Ask them/);
});

test('owners change their own name, and no more of themselves', async () => {
  const opened = await openScreen('/admin/settings/team');
  const own = await rowOf(opened.account.email);
  own.getByText('you');
  await opened.press(own.getByRole('button', { name: `More for ${opened.account.email}` }));
  await screen.findByRole('menuitem', { name: 'Change the name' });
  expect(screen.getAllByRole('menuitem')).toHaveLength(1);
});

test('the audit names who changed what, by area and person, and histories show names', async () => {
  const member = await makeAccount(shop, 'staff', randomUUID());
  const opened = await openScreen('/admin/settings/team');
  await choose(opened, member.email, 'Change name or role');
  const form = await dialog();
  const name = `Wanjiku ${randomUUID().slice(0, 8)}`;
  await opened.user.type(form.getByLabelText(/^Name/), name);
  await opened.user.click(form.getByLabelText('Counter'));
  await opened.press(form.getByRole('button', { name: 'Save' }));
  await rowOf(name);
  await opened.press(screen.getByRole('link', { name: 'Audit' }));
  await opened.press(await screen.findByRole('button', { name: /^Filters/ }));
  await opened.user.selectOptions(await screen.findByLabelText('Person'), opened.account.email);
  await waitFor(() => expect(opened.address()).toContain('person='));
  await screen.findByText('Role: Owner to Counter');
  screen.getByText(`Name: none to ${name}`);
  // Until the rows of the filter are there, the list has those of the account's creation, too.
  expect((await screen.findByTitle(member.email)).textContent).toBe(name);
  await opened.user.selectOptions(screen.getByLabelText('Area'), 'prices');
  await screen.findByText('No changes found');
});

test('the audit has the authenticator app that a member removed in the own account', async () => {
  const member = await makeAccount(shop, 'staff', randomUUID());
  const { access_token } = await addSecondFactor(member);
  const headers = { apikey: (await shop.keys()).publishable, authorization: `Bearer ${access_token}` };
  const account = (await (await fetch(`${shop.url}/auth/v1/user`, { headers })).json()) as {
    factors: { id: string }[];
  };
  const removed = await fetch(`${shop.url}/auth/v1/factors/${account.factors[0]?.id}`, {
    method: 'DELETE',
    headers,
  });
  expect(removed.status).toBe(200);
  expect(
    await readRows(`audit_events?subject=eq.${member.email}&kind=neq.member_invited&select=kind,actor_email`),
  ).toEqual([{ kind: 'authenticator_removed', actor_email: member.email }]);
});

test('the audit shows an edit of a product in words', async () => {
  const name = `Audited ${randomUUID().slice(0, 8)}`;
  const product = { name, slug: name.toLowerCase().replace(' ', '-'), price: 90_000, stock_quantity: 40 };
  await asOwner(shop, '/rest/v1/products', 'POST', product);
  const opened = await openScreen('/admin/settings/team/audit');
  await opened.user.selectOptions(await screen.findByLabelText('Area'), 'products');
  await waitFor(() => expect(opened.address()).toContain('area=products'));
  const row = async (action: string) =>
    within(
      await waitFor(() => {
        const found = screen
          .getAllByRole('row')
          .find(({ textContent }) => textContent?.includes(action) && textContent.includes(name));
        return found ?? expect.fail('no row');
      }),
    );
  const added = await row('Product added');
  added.getByText('The shop itself');
  added.getByText('Price: KES 900');
});
