// Invites a colleague: name, email address and role, by email or by a link that the owner sends.
import { type FormEvent, useState } from 'react';
import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { isEmail } from '../../../domain/people/email.ts';
import type { StaffRole } from '../../../domain/people/staff-rights.ts';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { messageForUser } from '../data/table-answer.ts';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useShop } from '../messages/use-shop.ts';
import { Choices } from '../ui/choices.tsx';
import { RoleChoice } from './role-choice.tsx';
import { type InvitationForm, type TeamMember, useInvite } from './team-queries.ts';

interface InviteDialogProps {
  isOpen: boolean;
  /** The invitation that is sent again. Null: a new one. */
  again: TeamMember | null;
  onClose(): void;
}

export function InviteDialog({ isOpen, again, onClose }: InviteDialogProps) {
  return (
    <DialogOrDrawer open={isOpen} onClose={onClose}>
      {isOpen ? <Invite again={again} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

const ways = [
  { value: 'mail', label: 'Email the link' },
  { value: 'link', label: 'I send the link' },
] as const;

function Invite({ again, onClose }: Pick<InviteDialogProps, 'again' | 'onClose'>) {
  const [name, setName] = useState(again?.name ?? '');
  const [email, setEmail] = useState(again?.email ?? '');
  const [role, setRole] = useState<StaffRole>(again?.role ?? 'staff');
  const [way, setWay] = useState<(typeof ways)[number]['value']>('mail');
  const [problems, setProblems] = useState<{ name?: string; email?: string }>({});
  const [sent, setSent] = useState<{ form: InvitationForm; link: string | null }>();
  const unsaved = useUnsaved(!sent && (name !== (again?.name ?? '') || email !== (again?.email ?? '')));
  const invite = useInvite((form, link) => setSent({ form, link }));

  function submit(event: FormEvent) {
    event.preventDefault();
    if (invite.isPending) return;
    const found = {
      ...(name.trim() ? {} : { name: 'Please enter the name that colleagues see' }),
      ...(isEmail(email.trim()) ? {} : { email: 'Please enter a valid email address' }),
    };
    setProblems(found);
    if (Object.keys(found).length === 0) invite.mutate({ name: name.trim(), email: email.trim(), role, way });
  }

  if (sent) return <Sent {...sent} onClose={onClose} />;
  return (
    <>
      <DialogHeading
        title={again ? 'Send the invitation again' : 'Invite a colleague'}
        description="The link opens a page with one button, where the colleague chooses a password. It is valid for an hour and works once."
      />
      <form onSubmit={submit} noValidate className="contents">
        <DialogBody>
          <div className="grid gap-4">
            {invite.error ? (
              <Notice tone="danger" title="Nobody was invited">
                {messageForUser(invite.error) || 'Please check the connection and try again.'}
              </Notice>
            ) : null}
            <TextField
              label="Name"
              required
              autoComplete="off"
              maxLength={60}
              value={name}
              problem={problems.name}
              hint="As colleagues see it, such as Njeri"
              onChange={({ target }) => setName(target.value)}
            />
            <TextField
              label="Email"
              type="email"
              required
              autoComplete="off"
              maxLength={254}
              value={email}
              disabled={again !== null}
              problem={problems.email}
              hint="To sign in with"
              onChange={({ target }) => setEmail(target.value)}
            />
            <RoleChoice value={role} onChoose={setRole} />
            <Choices
              label="How the link gets there"
              options={ways}
              value={way}
              onChoose={(value) => setWay(value)}
            />
          </div>
        </DialogBody>
        <FormFooter
          unsaved={unsaved}
          label={invite.isPending ? 'Inviting...' : way === 'mail' ? 'Send the invitation' : 'Make the link'}
          isBusy={invite.isPending}
          onCancel={onClose}
        />
      </form>
    </>
  );
}

function Sent({ form, link, onClose }: { form: InvitationForm; link: string | null; onClose(): void }) {
  const { shop } = useShop();
  const words = `${form.name}, here is your invitation to the staff panel of ${shop.name}. The link is valid for an hour: ${link}`;
  return (
    <>
      <DialogHeading
        title={link ? `The link for ${form.name}` : `${form.name} is invited`}
        description={
          link
            ? 'Whoever has the link can accept the invitation, so send it to nobody else. Previews of chats and scanners do not use it up.'
            : `An email with the link is on its way to ${form.email}.`
        }
      />
      {link ? (
        <DialogBody>
          <div className="grid gap-3">
            <p className="rounded-md border border-line bg-paper-deep px-3 py-2 text-sm break-all select-all">
              {link}
            </p>
            <div className="flex flex-wrap items-center gap-3">
              <CopyButton text={link} what="invitation link" />
              <a
                href={whatsappLink(null, words)}
                target="_blank"
                rel="noreferrer"
                className="tap font-semibold underline"
              >
                Send by WhatsApp
              </a>
              <a href={`sms:?body=${encodeURIComponent(words)}`} className="tap font-semibold underline">
                Send as a text
              </a>
            </div>
          </div>
        </DialogBody>
      ) : null}
      <DialogFooter>
        <div className="flex justify-end">
          <Button onClick={onClose}>Done</Button>
        </div>
      </DialogFooter>
    </>
  );
}
