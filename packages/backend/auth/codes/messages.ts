// Messages to users. The application provides the transport.
import type { Json } from '../rows.ts';

export type MailKind =
  | 'confirmation'
  | 'invite'
  | 'magiclink'
  | 'recovery'
  | 'email_change'
  | 'reauthentication'
  | 'notice';

export interface Mail {
  to: string;
  subject: string;
  text: string;
  html?: string;
  kind: MailKind;
  /** The code in the text, for applications with their own templates. */
  code?: string;
  /** The link in the text: a page whose button uses the token. Opening it changes nothing. */
  pageLink?: string;
  /** GoTrue's link (its `ConfirmationURL`): opening it uses the token, also when a mail scanner or a chat preview opens it. */
  link?: string;
  /** Metadata that was sent with an invitation. */
  data?: Json;
}

export interface TextMessage {
  /** Digits with country code, without `+`. */
  to: string;
  text: string;
  kind: 'otp' | 'phone_change' | 'reauthentication' | 'mfa';
  code?: string;
  channel: 'sms' | 'whatsapp';
}

/** Sends messages. A rejection means that it was not sent. */
export interface Messages {
  sendMail(mail: Mail): Promise<void>;
  sendText(message: TextMessage): Promise<{ messageId?: string } | undefined>;
}
