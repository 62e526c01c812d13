// The link to a rider's page, which is shown once: only its hash is stored.
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { useShop } from '../messages/use-shop.ts';
import { ContactLink, chatTo } from '../ui/contact-link.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { useLastValue } from '../ui/use-last-value.ts';
import type { OpenedLink } from './rider-list.ts';

export function LinkDialog({ link, onClose }: { link: OpenedLink | null; onClose(): void }) {
  const shown = useLastValue(link);
  return (
    <DialogOrDrawer open={link !== null} onClose={onClose}>
      {shown ? <Opened link={shown} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

function Opened({ link: { rider, url, expiresAt }, onClose }: { link: OpenedLink; onClose(): void }) {
  const { shop } = useShop();
  const words = `Habari ${rider.name}, your deliveries for ${shop.name}, until the end of your shift: ${url}`;
  return (
    <>
      <DialogHeading
        title={`Link for ${rider.name}`}
        description={`Ends ${formatDateTime(expiresAt)}. An earlier link of this rider has ended now.`}
      />
      <DialogBody>
        <div className="grid gap-4">
          <p className="flex items-center justify-between gap-2 rounded-md bg-paper-deep px-4 py-2">
            <span className="min-w-0 font-mono text-sm break-all">{url}</span>
            <CopyButton text={url} what="link" />
          </p>
          <p className="text-sm text-ink-soft">
            Send it to the rider now: it is not shown again. Anyone who has it sees this rider's deliveries,
            so end it when a phone is lost.
          </p>
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          <Button tone="quiet" onClick={onClose}>
            Done
          </Button>
          <ContactLink
            href={chatTo(rider.phone, words)}
            icon="chat"
            label="Send by WhatsApp"
            who={`to ${rider.name}`}
            className="px-4!"
          />
        </div>
      </DialogFooter>
    </>
  );
}
