// A plain mail as simple HTML: the same words, with links that can be tapped.

/** The addresses of the pages that a mail may lead to. */
export interface MailLinks {
  order: string;
  receipt: string;
}

/**
 * @param text paragraphs are parted by empty lines; a line that is one of the pages becomes a button
 * @param heading said above it, such as the name of the shop
 * @param links of the order; no other host than theirs is linked, whatever the text says
 */
export function mailHtml(text: string, heading: string, links: MailLinks): string {
  const paragraphs = text
    .split(/\n{2,}/)
    .map(
      (paragraph) =>
        `<p style="margin:0 0 18px">${paragraph
          .split('\n')
          .map((words) => line(words, links))
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

function line(text: string, links: MailLinks): string {
  const address = text.trim();
  if (address === links.order || address === links.receipt) {
    const label = address === links.receipt ? 'Open the receipt' : 'Open your order';
    return `<a href="${escaped(address)}" style="${button}">${label}</a>`;
  }
  const { origin } = new URL(links.order);
  return text
    .split(/(https?:\/\/[^\s<>"]+)/)
    .map((part, index) =>
      index % 2 && isOf(origin, part) ? `<a href="${escaped(part)}">${escaped(part)}</a>` : escaped(part),
    )
    .join('');
}

const isOf = (origin: string, address: string): boolean =>
  URL.canParse(address) && new URL(address).origin === origin;

const signs: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => signs[sign] ?? sign);
