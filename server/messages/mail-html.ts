// Converts a plain-text email to simple HTML with links.

/** Labels of buttons by path. */
export type MailButtons = ReadonlyMap<string, string>;

/**
 * @param text paragraphs separated by empty lines; a line that is the URL of a button becomes that button
 * @param heading above the text, such as the name of the shop
 * @param origin of the shop; URLs of other hosts are not linked
 */
export function mailHtml(text: string, heading: string, origin: string, buttons: MailButtons): string {
  const paragraphs = text
    .split(/\n{2,}/)
    .map(
      (paragraph) =>
        `<p style="margin:0 0 18px">${paragraph
          .split('\n')
          .map((words) => line(words, origin, buttons))
          .join('<br>')}</p>`,
    )
    .join('\n');
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(heading)}</title></head>
<body style="margin:0;background:#f6f1e7;color:#2a2018;font:16px/1.5 Arial,Helvetica,sans-serif">
<div style="max-width:560px;margin:0 auto;padding:24px 16px">
<p style="margin:0 0 16px;font-size:22px;font-weight:bold;color:#1f5a34">${escaped(heading)}</p>
<div style="background:#ffffff;border-radius:12px;padding:24px 20px 6px">
${paragraphs}
</div>
</div>
</body>
</html>
`;
}

const button =
  'display:inline-block;margin-top:6px;padding:12px 20px;border-radius:8px;background:#1f5a34;color:#ffffff;font-weight:bold;text-decoration:none';

function line(text: string, origin: string, buttons: MailButtons): string {
  const address = text.trim();
  const label = buttons.get(address);
  if (label) return `<a href="${escaped(address)}" style="${button}">${escaped(label)}</a>`;
  return text
    .split(/(https?:\/\/[^\s<>"]+)/)
    .map((part, index) =>
      index % 2 && isOnOrigin(origin, part)
        ? `<a href="${escaped(part)}">${escaped(part)}</a>`
        : escaped(part),
    )
    .join('');
}

const isOnOrigin = (origin: string, address: string): boolean =>
  URL.canParse(address) && new URL(address).origin === origin;

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => entities[sign] ?? sign);
