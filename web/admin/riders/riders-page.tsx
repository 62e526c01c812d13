// The riders: who can be given deliveries, how many they have, and the links to their pages (docs/decisions/riders.md).
import { useState } from 'react';
import { Link } from 'react-router';
import { nairobiClock } from '../../../domain/nairobi-time.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useMay } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { EmptyCard, RowGroup } from '../list/card-list.tsx';
import { RowMenu } from '../list/row-menu.tsx';
import { callTo, chatTo } from '../ui/contact-link.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { PageHeading } from '../ui/page-heading.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatAge } from '../ui/time/dates.ts';
import { useLastValue } from '../ui/use-last-value.ts';
import type { Route } from './+types/riders-page.ts';
import { LinkDialog } from './link-dialog.tsx';
import { type EditedRider, RiderDialog } from './rider-dialog.tsx';
import {
  type ListedRider,
  type OpenedLink,
  useOpenLink,
  useRevokeLink,
  useRiders,
  useSaveRider,
} from './rider-list.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Riders');

interface Question {
  about: 'deactivate' | 'new link' | 'end link';
  rider: ListedRider;
}

export default function RidersPage() {
  const may = useMay();
  const riders = useRiders();
  const [edited, setEdited] = useState<EditedRider>(null);
  const [link, setLink] = useState<OpenedLink | null>(null);
  const [question, setQuestion] = useState<Question | null>(null);
  const close = () => setQuestion(null);
  const save = useSaveRider(close);
  const open = useOpenLink((opened) => {
    close();
    setLink(opened);
  });
  const revoke = useRevokeLink(close);
  const rows = riders.data ?? [];
  const groups = [
    { title: 'Active', riders: rows.filter(({ is_active }) => is_active) },
    { title: 'Not active', riders: rows.filter(({ is_active }) => !is_active) },
  ].filter((group) => group.riders.length > 0);
  const change = (rider: ListedRider, isActive: boolean) => {
    const { name, phone, vehicle, plate } = rider;
    save.mutate({ rider, form: { name, phone, vehicle, plate }, isActive });
  };

  return (
    <div className="grid max-w-4xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading
        up={{ to: '/admin/deliveries', name: 'Deliveries' }}
        heading="Riders"
        actions={
          rows.length > 0 ? (
            <Button onClick={() => setEdited({ rider: null })} aria-haspopup="dialog">
              Add a rider
            </Button>
          ) : null
        }
      />
      {riders.data ? null : <ScreenLoadState noun="riders" queries={[riders]} />}
      {riders.data && rows.length === 0 ? (
        <EmptyCard
          title="No riders yet"
          text="A rider on this list is one tap away when you assign a delivery, and gets a link to a page with the deliveries of the shift: address, map, call, cash, and a button for each step."
          action={
            <Button onClick={() => setEdited({ rider: null })} aria-haspopup="dialog">
              Add the first rider
            </Button>
          }
        />
      ) : null}
      {groups.map((group) => (
        <RowGroup key={group.title} title={group.title} count={group.riders.length}>
          {group.riders.map((rider) => (
            <RiderRow
              key={rider.id}
              rider={rider}
              isOpening={open.isPending && open.variables?.id === rider.id}
              onOpenLink={() =>
                rider.link_expires_at ? setQuestion({ about: 'new link', rider }) : open.mutate(rider)
              }
              onEdit={() => setEdited({ rider })}
              onAsk={(about) => setQuestion({ about, rider })}
              onActivate={() => change(rider, true)}
            />
          ))}
        </RowGroup>
      ))}
      {may('messages') && rows.length > 0 ? (
        <p className="text-sm text-ink-soft">
          Riders can get each job as a text, too. It is off at first, because every text costs:{' '}
          <Link to="/admin/messages/templates" className="tap font-semibold underline">
            Templates
          </Link>
          , “To a rider: job”.
        </p>
      ) : null}
      <RiderDialog edited={edited} onClose={() => setEdited(null)} />
      <LinkDialog link={link} onClose={() => setLink(null)} />
      <Questions
        question={question}
        isBusy={save.isPending || open.isPending || revoke.isPending}
        onCancel={close}
        onConfirm={({ about, rider }) => {
          if (about === 'deactivate') change(rider, false);
          else if (about === 'new link') open.mutate(rider);
          else revoke.mutate(rider);
        }}
      />
    </div>
  );
}

interface RiderRowProps {
  rider: ListedRider;
  isOpening: boolean;
  onOpenLink(): void;
  onEdit(): void;
  onAsk(about: Question['about']): void;
  onActivate(): void;
}

function RiderRow({ rider, isOpening, onOpenLink, onEdit, onAsk, onActivate }: RiderRowProps) {
  const now = useNow();
  const { name, phone, vehicle, plate, is_active, open_deliveries, last_seen_at, link_expires_at } = rider;
  return (
    <li aria-label={name} className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3">
      <div className="min-w-0 grow basis-56">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <bdi className="font-semibold wrap-anywhere">{name}</bdi>
          {is_active ? (
            <Badge tone={open_deliveries > 0 ? 'blue' : 'green'} isSmall>
              {open_deliveries > 0 ? `${open_deliveries} to deliver` : 'Free'}
            </Badge>
          ) : null}
        </p>
        <p className="text-sm text-ink-soft">
          <a href={callTo(phone)} className="tap whitespace-nowrap underline">
            {formatPhone(phone)}
          </a>
          {' · '}
          {[vehicle, plate].filter(Boolean).join(', ')}
        </p>
        <p className="text-sm text-ink-soft">
          {last_seen_at
            ? `Seen ${formatAge(last_seen_at, now).replace(/ (min|h)$/, ' $1 ago')}`
            : 'Not seen on the page yet'}
          {link_expires_at
            ? ` · Link until ${nairobiClock(Date.parse(link_expires_at))}`
            : is_active
              ? ' · No link'
              : ''}
        </p>
      </div>
      <div className="flex items-center gap-2 max-md:grow">
        {is_active ? (
          <Button
            tone="quiet"
            isBusy={isOpening}
            onClick={onOpenLink}
            className="max-md:grow"
            aria-label={`${link_expires_at ? 'New link' : 'Open link'} for ${name}`}
          >
            {link_expires_at ? 'New link' : 'Open link'}
          </Button>
        ) : (
          <Button tone="quiet" onClick={onActivate} className="max-md:grow" aria-label={`Activate ${name}`}>
            Activate
          </Button>
        )}
        <RowMenu
          name={name}
          actions={() => [
            { label: 'Edit', run: onEdit },
            { label: 'Chat on WhatsApp', href: chatTo(phone) },
            ...(link_expires_at ? [{ label: 'End the link', run: () => onAsk('end link') }] : []),
            ...(is_active ? [{ label: 'Deactivate', run: () => onAsk('deactivate') }] : []),
          ]}
        />
      </div>
    </li>
  );
}

interface QuestionsProps {
  question: Question | null;
  isBusy: boolean;
  onCancel(): void;
  onConfirm(question: Question): void;
}

function Questions({ question, isBusy, onCancel, onConfirm }: QuestionsProps) {
  // The words stay while the dialog closes.
  const shown = useLastValue(question);
  if (!shown) return null;
  const { name, open_deliveries } = shown.rider;
  const open = open_deliveries === 1 ? 'the open delivery' : `the ${open_deliveries} open deliveries`;
  const texts = {
    deactivate: {
      title: `Deactivate ${name}?`,
      text: `${name} is not offered for deliveries any more, and the link ends.${open_deliveries > 0 ? ` Give ${open} to someone else.` : ''}`,
      confirm: 'Deactivate',
    },
    'new link': {
      title: `A new link for ${name}?`,
      text: 'The present link ends at once: send the new one to the rider.',
      confirm: 'Open a new link',
    },
    'end link': {
      title: `End the link of ${name}?`,
      text: 'The page shows nothing any more, and what the rider presses is not saved.',
      confirm: 'End the link',
    },
  }[shown.about];
  return (
    <ConfirmDialog
      open={question !== null}
      title={texts.title}
      text={texts.text}
      confirm={texts.confirm}
      isBusy={isBusy}
      onCancel={onCancel}
      onConfirm={() => onConfirm(shown)}
    />
  );
}
