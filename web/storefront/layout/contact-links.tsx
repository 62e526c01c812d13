// How to reach the seller, with a prepared message.
import { formatPhone } from '../../../domain/people/phone-format.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { useChatLink } from './chat-link.ts';
import { useShop } from './use-shop.ts';

const linkStyle = '-my-2 inline-block py-2 font-bold underline underline-offset-2';

/** WhatsApp and call links within a sentence. */
export function ContactLinks({ message }: { message: string }) {
  const { settings } = useShop();
  const chat = useChatLink(message);
  return (
    <>
      <a href={chat} target="_blank" rel="noreferrer" className={linkStyle}>
        WhatsApp us
      </a>{' '}
      or{' '}
      <a href={`tel:${settings.support_phone}`} className={`${linkStyle} whitespace-nowrap`}>
        call {formatPhone(settings.support_phone)}
      </a>
    </>
  );
}

/** The same as two buttons. */
export function ContactButtons({ message }: { message: string }) {
  const { settings } = useShop();
  const chat = useChatLink(message);
  return (
    <div className="flex grow flex-wrap gap-2 *:grow sm:grow-0">
      <a href={chat} target="_blank" rel="noreferrer" className={buttonStyle('ember')}>
        WhatsApp us
      </a>
      <a href={`tel:${settings.support_phone}`} className={buttonStyle('quiet')}>
        Call us
      </a>
    </div>
  );
}
