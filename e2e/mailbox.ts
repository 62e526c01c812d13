// Reads emails and text messages from a shop's outbox.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../scripts/tests/open-shop.ts';

/** Emails to an address as decoded text, oldest first. */
export async function mailsTo(outbox: string, address: string): Promise<string[]> {
  const files = await readdir(outbox).catch(() => []);
  const mails: string[] = [];
  for (const file of files.filter((name) => name.endsWith('.eml')).sort()) {
    const mail = fromQuotedPrintable(await readFile(join(outbox, file), 'utf8'));
    if (mail.includes(`To: ${address}`)) mails.push(mail);
  }
  return mails;
}

/** Text messages to a phone, oldest first. */
export async function textsTo(outbox: string, phone: string): Promise<{ kind: string; text: string }[]> {
  const files = await readdir(outbox).catch(() => []);
  const kept = await Promise.all(
    files
      .filter((name) => name.endsWith('.json'))
      .sort()
      .map(async (name) => JSON.parse(await readFile(join(outbox, name), 'utf8').catch(() => '{}'))),
  );
  return kept.filter(({ to }) => to === phone);
}

/** Waits for the email after the first `known` ones and returns the link in it. */
export async function linkInMail(outbox: string, address: string, known = 0): Promise<string> {
  const mail = await nextMail(outbox, address, known);
  const link = /https?:\/\/[^\s"<>]+\/verify\/confirm\?[^\s"<>]+/.exec(mail)?.[0];
  if (!link) throw new Error(`no link in: ${mail}`);
  return link.replaceAll('&amp;', '&');
}

/** The link in a newsletter email that confirms or removes the address. */
export function newsletterLinkIn(mail: string, step: 'confirm' | 'unsubscribe'): string {
  const link = new RegExp(`https?://[^\\s"<>]+/newsletter/${step}\\?token=\\w+`).exec(mail)?.[0];
  if (!link) throw new Error(`no link to ${step} in: ${mail}`);
  return link;
}

export async function nextMail(outbox: string, address: string, known = 0): Promise<string> {
  let mails: string[] = [];
  await until(async () => {
    mails = await mailsTo(outbox, address);
    return mails.length > known;
  }, `a mail to ${address} is in the outbox`);
  return mails[known] ?? '';
}

function fromQuotedPrintable(text: string): string {
  return text
    .replaceAll(/=\r?\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
