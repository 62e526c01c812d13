// Links to call, chat or e-mail.

import { whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { msisdn, normalisePhone } from '../../../domain/people/phone.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon, type IconName } from '../../ui/icons.tsx';

/** The `tel:` link of a phone number in any format. */
export const callTo = (phone: string): string =>
  `tel:${normalisePhone(phone) ?? phone.replace(/[^\d+]/g, '')}`;

/**
 * The WhatsApp chat with a mobile number as it is stored.
 * @param text stands in the chat
 */
export const chatTo = (phone: string, text?: string): string => whatsappLink(msisdn(phone), text);

/** A `mailto:` link, encoded so that it has one recipient and no other fields. */
export const mailTo = (email: string, subject?: string): string =>
  `mailto:${encodeURIComponent(email).replace('%40', '@')}${subject ? `?subject=${encodeURIComponent(subject)}` : ''}`;

interface ContactLinkProps {
  href: string;
  icon: IconName;
  label: string;
  /** The recipient's name, for screen readers. */
  who: string;
  className?: string;
}

export function ContactLink({ href, icon, label, who, className = 'px-2!' }: ContactLinkProps) {
  return (
    <a
      href={href}
      {...(href.startsWith('http') ? { target: '_blank', rel: 'noreferrer' } : {})}
      className={`${buttonStyle('quiet')} ${className}`}
    >
      <Icon name={icon} className="size-4.5" />
      {label}
      <span className="sr-only"> {who}</span>
    </a>
  );
}
