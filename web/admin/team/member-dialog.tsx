// Changes the name and the role of a member.
import { type FormEvent, useState } from 'react';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { RoleChoice } from './role-choice.tsx';
import { nameOf, type TeamMember, useChangeMember } from './team-queries.ts';

export function MemberDialog({ member, onClose }: { member: TeamMember | null; onClose(): void }) {
  return (
    <DialogOrDrawer open={member !== null} onClose={onClose}>
      {member ? <Change key={member.user_id} member={member} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

function Change({ member, onClose }: { member: TeamMember; onClose(): void }) {
  const isOwn = useMember().id === member.user_id;
  const [name, setName] = useState(member.name);
  const [role, setRole] = useState(member.role);
  const [problem, setProblem] = useState<string>();
  const unsaved = useUnsaved(name !== member.name || role !== member.role);
  const save = useChangeMember(() => {
    unsaved.note(false);
    onClose();
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (save.isPending) return;
    const found = name.trim() ? undefined : 'Please enter the name that colleagues see';
    setProblem(found);
    if (found) return;
    save.mutate({ member, name: name.trim(), ...(role === member.role ? {} : { role }) });
  }
  return (
    <>
      <DialogHeading title={nameOf(member)} description={member.email} />
      <form onSubmit={submit} noValidate className="contents">
        <DialogBody>
          <div className="grid gap-4">
            <TextField
              label="Name"
              required
              autoComplete="off"
              maxLength={60}
              value={name}
              problem={problem}
              hint="Colleagues see it instead of the email address"
              onChange={({ target }) => setName(target.value)}
            />
            {isOwn ? (
              <p className="text-sm text-ink-soft">Another owner changes your role.</p>
            ) : (
              <RoleChoice value={role} onChoose={setRole} />
            )}
          </div>
        </DialogBody>
        <FormFooter unsaved={unsaved} isBusy={save.isPending} onCancel={onClose} />
      </form>
    </>
  );
}
