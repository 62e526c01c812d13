// The team: an invitation by email leads a colleague to the part of the panel that the role has, until the access is taken away.
import { describe, expect } from 'vitest';
import { expectAccessible } from '../../accessibility.ts';
import { desktop, phone } from '../../browser.ts';
import { linkInMail } from '../../mailbox.ts';
import { atSizes } from '../../selection.ts';
import { enterAsStaff } from '../../staff-member.ts';
import { openShopForStories, shop, storyWith } from '../../story.ts';

openShopForStories();
const story = storyWith({ viewport: desktop });
const afterwards = /40[13] .*\/(auth|rest)\/v1\/|This account is not admin, or not active/;

describe('a colleague', () => {
  story.for(
    atSizes([
      ['a phone', phone],
      ['a desktop', desktop],
    ] as const),
  )(
    'is invited by email for the counter, works at it on %s, and is out at once',
    async ([, viewport], { newVisitor }) => {
      const name = `Njeri ${viewport.width}`;
      const email = `njeri-${viewport.width}@jani.example`;
      const { page: owner } = await newVisitor({ viewport });
      await enterAsStaff(shop, owner, '/admin/settings/team');
      await owner.getByRole('button', { name: 'Invite a colleague' }).click();
      const form = owner.getByRole('dialog');
      await form.getByRole('textbox', { name: 'Name' }).fill(name);
      await form.getByRole('textbox', { name: 'Email' }).fill(email);
      await form.getByRole('radio', { name: 'Counter' }).check();
      await expectAccessible(owner);
      await form.getByRole('button', { name: 'Send the invitation' }).click();
      await owner.getByText(`An email with the link is on its way to ${email}.`).waitFor();
      await owner.getByRole('button', { name: 'Done' }).click();
      const invited = owner.getByRole('listitem').filter({ hasText: email });
      await invited.getByText('Invited ').waitFor();

      const link = await linkInMail(shop.outbox, email);
      // A mail scanner opens the link first.
      expect((await fetch(link)).status).toBe(200);
      const { page: njeri } = await newVisitor({ viewport, expectedFailures: afterwards });
      await njeri.goto(link);
      await njeri.getByRole('button', { name: 'Accept' }).click();
      await njeri.getByLabel(/^New password( \*)?$/).fill('correct horse battery');
      await njeri.getByLabel(/^New password, again/).fill('correct horse battery');
      await njeri.getByRole('button', { name: 'Set password' }).click();
      await njeri.waitForURL('**/admin/today');
      await njeri.goto(`${shop.url}/admin/products`);
      await njeri.getByRole('heading', { name: 'This page is not part of your role' }).waitFor();
      await expectAccessible(njeri);
      await njeri.getByRole('link', { name: 'Open Today' }).click();
      await njeri.getByRole('heading', { name: 'Today' }).waitFor();

      await owner.reload();
      await owner.getByRole('button', { name: `More for ${name}` }).click();
      await owner.getByRole('menuitem', { name: 'Take the access away' }).click();
      await owner.getByRole('button', { name: 'Take it away' }).click();
      await owner.getByRole('region', { name: 'Without access' }).getByText(email).waitFor();
      await njeri.getByRole('heading', { name: 'Your session has ended' }).waitFor();
      expect(await njeri.getByRole('navigation', { name: 'Admin' }).count()).toBe(0);
    },
  );
});
