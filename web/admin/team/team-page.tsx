// The team: who works in the panel, with which role, and who is invited (docs/decisions/roles.md).

import { useState } from 'react';
import { Link } from 'react-router';
import { labelOfRole } from '../../../domain/people/staff-role-labels.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { RowGroup } from '../list/card-list.tsx';
import { RowMenu } from '../list/row-menu.tsx';
import type { RowAction } from '../list/row-menu-items.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { PageHeading } from '../ui/page-heading.tsx';
import { NameInHistory } from '../ui/staff-name.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatAge, formatDateTime } from '../ui/time/dates.ts';
import { useLastValue } from '../ui/use-last-value.ts';
import type { Route } from './+types/team-page.ts';
import { InviteDialog } from './invite-dialog.tsx';
import { MemberDialog } from './member-dialog.tsx';
import {
  nameOf,
  type TeamMember,
  useChangeMember,
  useRemovedFactors,
  useResetSecondFactor,
  useTeam,
  useWithdrawInvitation,
} from './team-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Team');

type Question = { about: 'access' | 'invitation' | 'second factor'; member: TeamMember };

export default function TeamPage() {
  const team = useTeam();
  const [inviting, setInviting] = useState<{ again: TeamMember | null } | null>(null);
  const [changing, setChanging] = useState<TeamMember | null>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const close = () => setQuestion(null);
  const change = useChangeMember(close);
  const withdraw = useWithdrawInvitation(close);
  const reset = useResetSecondFactor(close);
  const members = team.data ?? [];
  const groups = [
    { title: 'Members', members: members.filter(({ is_active, is_invited }) => is_active && !is_invited) },
    { title: 'Invited', members: members.filter(({ is_active, is_invited }) => is_active && is_invited) },
    { title: 'Without access', members: members.filter(({ is_active }) => !is_active) },
  ].filter((group) => group.members.length > 0);

  return (
    <div className="grid max-w-4xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading
        up={{ to: '/admin/settings?section=team', name: 'Settings' }}
        heading="Team"
        actions={
          <>
            <Link to="/admin/settings/team/audit" className={buttonStyle('quiet')}>
              Audit
            </Link>
            <Button onClick={() => setInviting({ again: null })} aria-haspopup="dialog">
              Invite a colleague
            </Button>
          </>
        }
      />
      {team.data ? null : <ScreenLoadState noun="team" queries={[team]} />}
      <RemovedFactors />
      {groups.map((group) => (
        <RowGroup key={group.title} title={group.title} count={group.members.length}>
          {group.members.map((member) => (
            <MemberRow
              key={member.user_id}
              member={member}
              onChange={() => setChanging(member)}
              onInvite={() => setInviting({ again: member })}
              onAsk={(about) => setQuestion({ about, member })}
              onReadmit={() => change.mutate({ member, is_active: true })}
            />
          ))}
        </RowGroup>
      ))}
      <InviteDialog
        isOpen={inviting !== null}
        again={inviting?.again ?? null}
        onClose={() => setInviting(null)}
      />
      <MemberDialog member={changing} onClose={() => setChanging(null)} />
      <Questions
        question={question}
        isBusy={change.isPending || withdraw.isPending || reset.isPending}
        onCancel={close}
        onConfirm={({ about, member }) => {
          if (about === 'access') change.mutate({ member, is_active: false });
          else if (about === 'invitation') withdraw.mutate(member);
          else reset.mutate(member);
        }}
      />
    </div>
  );
}

/** So that no one loses a second factor unnoticed. */
function RemovedFactors() {
  const removed = useRemovedFactors();
  if (!removed?.length) return null;
  return (
    <ul
      aria-label="Second factors removed this week"
      className="grid gap-1 rounded-md border border-ember-200 bg-ember-50 px-4 py-3 text-sm"
    >
      {removed.map(({ id, kind, actor_email, subject, happened_at }) => (
        <li key={id} className="wrap-anywhere">
          {kind === 'recovery_code_used' ? (
            <>
              <NameInHistory email={subject} otherwise="A former member" /> removed the second factor with a
              recovery code
            </>
          ) : (
            <>
              <NameInHistory email={actor_email} otherwise="The shop itself" /> reset the second factor of{' '}
              <NameInHistory email={subject} otherwise="a former member" />
            </>
          )}
          , {formatDateTime(happened_at)}. Not expected? Ask them, and take the access away until you know.
        </li>
      ))}
    </ul>
  );
}

interface MemberRowProps {
  member: TeamMember;
  onChange(): void;
  onInvite(): void;
  onAsk(about: Question['about']): void;
  onReadmit(): void;
}

function MemberRow({ member, onChange, onInvite, onAsk, onReadmit }: MemberRowProps) {
  const isOwn = useMember().id === member.user_id;
  const now = useNow();
  const { email, name, role, is_active, is_invited, invited_at, last_seen_at, second_factors } = member;
  const actions: RowAction[] = [
    ...(is_active ? [{ label: isOwn ? 'Change the name' : 'Change name or role', run: onChange }] : []),
    ...(is_active && is_invited
      ? [
          { label: 'Send the invitation again', run: onInvite },
          { label: 'Withdraw the invitation', run: () => onAsk('invitation') },
        ]
      : []),
    ...(is_active && !isOwn && second_factors > 0
      ? [{ label: 'Reset the second factor', run: () => onAsk('second factor') }]
      : []),
    ...(is_active && !isOwn && !is_invited
      ? [{ label: 'Take the access away', run: () => onAsk('access') }]
      : []),
    ...(is_active ? [] : [{ label: 'Readmit', run: onReadmit }]),
  ];
  const seen = is_invited
    ? `Invited ${invited_at ? formatDateTime(invited_at) : ''}`
    : last_seen_at
      ? `Last seen ${formatAge(last_seen_at, now).replace(/ (min|h)$/, ' $1 ago')}`
      : 'Never signed in';
  return (
    <li className="flex items-center gap-3 px-4 py-2.5 md:px-5">
      <div className="min-w-0 grow">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="font-semibold wrap-anywhere">{name || email}</span>
          {isOwn ? <span className="text-sm text-ink-soft">you</span> : null}
          <Badge tone={role === 'owner' ? 'purple' : role === 'staff' ? 'blue' : 'orange'} isSmall>
            {labelOfRole(role)}
          </Badge>
        </p>
        <p className="text-sm text-ink-soft">
          {name ? (
            <>
              <span className="wrap-anywhere max-md:block">{email}</span>
              <span className="max-md:hidden"> · </span>
            </>
          ) : null}
          <span title={last_seen_at ? formatDateTime(last_seen_at) : undefined}>{seen}</span>
          {is_invited || !is_active
            ? null
            : ` · ${second_factors > 0 ? 'Second factor on' : 'No second factor'}`}
        </p>
      </div>
      {isOwn ? (
        <Link to="/admin/account" className="tap text-sm font-semibold underline max-md:hidden">
          Your account
        </Link>
      ) : null}
      <RowMenu name={name || email} actions={() => actions} />
    </li>
  );
}

interface QuestionsProps {
  question: Question | null;
  isBusy: boolean;
  onConfirm(question: Question): void;
  onCancel(): void;
}

/** Questions before what takes something away. */
function Questions({ question, isBusy, onConfirm, onCancel }: QuestionsProps) {
  // The words stay while the dialog closes.
  const shown = useLastValue(question);
  const who = shown ? nameOf(shown.member) : '';
  const { title, text, confirm } = {
    access: {
      title: `Take ${who}'s access away?`,
      text: 'All devices are signed out at once, and live changes and notices end. The history keeps the name. You can readmit the member later.',
      confirm: 'Take it away',
    },
    invitation: {
      title: `Withdraw the invitation of ${who}?`,
      text: 'Its link does not work any more.',
      confirm: 'Withdraw it',
    },
    'second factor': {
      title: `Reset the second factor of ${who}?`,
      text: 'Only if you are sure who asks: call them. All devices are signed out, and the password alone signs in until a new authenticator app is added. It is written into the audit.',
      confirm: 'Reset it',
    },
  }[shown?.about ?? 'access'];
  return (
    <ConfirmDialog
      open={question !== null}
      title={title}
      text={text}
      confirm={confirm}
      isBusy={isBusy}
      onConfirm={() => question && onConfirm(question)}
      onCancel={onCancel}
    />
  );
}
