// What the service sends to people. How it gets there is the affair of whoever starts the service.

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
  /** What the text is made of, for whoever words it anew: the code, the link. */
  code?: string;
  link?: string;
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
