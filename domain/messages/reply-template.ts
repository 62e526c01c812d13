// Templates from which staff begin a reply to an inquiry: their placeholders, and how one becomes the text that staff edit and send.

import { findTrackingNumbers } from '../orders/tracking-number.ts';
import {
  fillTemplate,
  type MessageFacts,
  problemOfTemplate,
  shopPlaceholders,
  shopValues,
} from './customer-message.ts';

/** The placeholders with their meanings; `private.check_reply_template` lists the same ones. */
export const replyPlaceholders = {
  ...shopPlaceholders,
  first_name: 'the first name of the customer',
  name: 'the name of the customer',
  tracking: 'the tracking number in the inquiry, where there is one',
} as const;

/** Characters of a title and of a text; the database rejects longer ones. */
export const replyTemplateLimits = { title: 80, body: 2000 } as const;

/** Characters of a reply by its way; `answer_inquiry` rejects longer ones. */
export const replyLimits = { mail: 5000, text: 480, elsewhere: 5000 } as const;

export interface ReplyFacts {
  shop: MessageFacts['shop'];
  /** Of the customer. */
  name: string;
  subject: string | null;
  message: string;
}

/** An example inquiry for the preview of reply templates. */
export const exampleInquiry = {
  name: 'Amina Kamau',
  subject: 'My order',
  message: 'Where is JJ-20261121-1234?',
} as const satisfies Omit<ReplyFacts, 'shop'>;

/** Fills in a reply template for an inquiry. */
export function writeReply(body: string, { shop, name, subject, message }: ReplyFacts): string {
  const values = {
    ...shopValues(shop),
    first_name: name.trim().split(/\s+/)[0] ?? '',
    name: name.trim(),
    tracking: findTrackingNumbers(`${subject ?? ''}\n${message}`)[0]?.number ?? '',
  } satisfies Record<keyof typeof replyPlaceholders, string>;
  return fillTemplate(body, values).trim();
}

/** Whether a text still has a placeholder, which `answer_inquiry` rejects. */
export const hasPlaceholder = (text: string): boolean => /\{[a-z_]*\}/.test(text);

/**
 * Returns the problems of a reply template; the database rejects the same (docs/error-codes.md).
 * @returns a sentence for each invalid field
 */
export function checkReplyTemplate({ title, body }: { title: string; body: string }): {
  title?: string;
  body?: string;
} {
  const titleProblem =
    title.trim() === ''
      ? 'Please enter a title'
      : [...title].length > replyTemplateLimits.title
        ? `At most ${replyTemplateLimits.title} characters`
        : undefined;
  const bodyProblem = problemOfTemplate(body, replyTemplateLimits.body, replyPlaceholders);
  return { ...(titleProblem ? { title: titleProblem } : {}), ...(bodyProblem ? { body: bodyProblem } : {}) };
}
