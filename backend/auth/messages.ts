// Messages to users. The application provides the transport.
import type { Json } from './rows.ts';

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
  /** The parts of the text, for applications with their own templates: code and link. */
  code?: string;
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
