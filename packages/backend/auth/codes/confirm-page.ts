// GET and POST /verify/confirm: the page that links of the service's emails open. Opening it changes nothing and reads no table, because
// mail scanners and chat previews open links, follow redirects and run scripts. Its button posts the token.
import { createHash } from 'node:crypto';
import { AuthError } from '../auth-error.ts';
import type { AuthContext, AuthRequest, Fields, Route } from '../context.ts';
import type { LinkType } from './emails.ts';
import { isPkceHash } from './one-time-tokens.ts';
import { goTo, useLink, whereTo, withLinkError } from './verify.ts';

/** The page without the recipient's address: previews show the title to everyone in a chat. */
const wording: Record<LinkType, { title: string; text: string; button: string }> = {
  signup: {
    title: 'Confirm your email address',
    text: 'Press the button to confirm that this email address is yours.',
    button: 'Confirm',
  },
  invite: {
    title: 'Accept your invitation',
    text: 'Press the button to accept the invitation.',
    button: 'Accept',
  },
  magiclink: {
    title: 'Sign in',
    text: 'Press the button to sign in on this device.',
    button: 'Sign in',
  },
  recovery: {
    title: 'Reset your password',
    text: 'Press the button, then choose a new password.',
    button: 'Continue',
  },
  email_change: {
    title: 'Change your email address',
    text: 'Press the button to confirm the change of your email address.',
    button: 'Confirm the change',
  },
};

const isLinkType = (type: string): type is LinkType => Object.hasOwn(wording, type);

interface Link {
  hash: string;
  type: LinkType;
}

/** The page with the button. It answers HEAD, too. */
async function showPage(request: AuthRequest, context: AuthContext): Promise<Response> {
  const link = readLink(Object.fromEntries(request.url.searchParams));
  return link ? page(200, request, context, { link, ...wording[link.type] }) : incomplete(request, context);
}

/** Uses the token, and redirects as GET /verify does. Problems are shown here, with the next step. */
async function pressButton(request: AuthRequest, context: AuthContext): Promise<Response> {
  if (isFromOtherSite(request, context)) {
    return page(403, request, context, {
      title: 'Open the link from your email',
      text: 'This button was pressed on a page of another site. Nothing has changed.',
    });
  }
  const link = readLink(request.body);
  if (!link) return incomplete(request, context);
  try {
    const used = await useLink(request, context, link);
    if (!('isHalfWay' in used)) return goTo(whereTo(used, request.redirectTo));
    return page(200, request, context, {
      title: 'One more step',
      text: 'Thank you. Now open the link that we sent to your other email address.',
      next: whereTo(used, request.redirectTo),
    });
  } catch (error) {
    if (!(error instanceof AuthError)) context.onError(error);
    return error instanceof AuthError && error.status < 500
      ? describeProblem(error, link, request, context)
      : page(503, request, context, {
          link,
          ...wording[link.type],
          title: 'That did not work',
          text: 'Please press the button again in a moment.',
        });
  }
}

function describeProblem(
  error: AuthError,
  link: Link,
  request: AuthRequest,
  context: AuthContext,
): Response | Promise<Response> {
  if (error.status === 429) {
    return page(429, request, context, {
      link,
      ...wording[link.type],
      title: 'Too many attempts',
      text: 'Please wait a few minutes, then press the button again.',
    });
  }
  const problems: Record<string, { title: string; text: string }> = {
    user_banned: { title: 'This account is blocked', text: `Please ask the owner of ${siteOf(context)}.` },
    email_exists: {
      title: 'This email address is taken',
      text: 'Another account has it. Sign in with that account, or change to another address.',
    },
    flow_state_not_found: {
      title: 'This link does not work any more',
      text: 'Enter the code from the same email where you asked for it, or ask for a new email there.',
    },
  };
  return page(error.status, request, context, {
    title: 'This link does not work any more',
    text: 'It was used already, its code was used, or it is too old. Continue to ask for a new one, then open the newest email.',
    ...problems[error.code],
    next: withLinkError(request.redirectTo, error, isPkceHash(link.hash)),
  });
}

const incomplete = (request: AuthRequest, context: AuthContext) =>
  page(400, request, context, {
    title: 'This link is incomplete',
    text: 'Open it again from the email, or copy all of it.',
    next: context.settings.siteUrl,
  });

/** Null for a link without a token, or one that no email contains. */
function readLink({ token_hash: hash, type }: Fields): Link | null {
  if (typeof hash !== 'string' || typeof type !== 'string' || !isLinkType(type)) return null;
  return /^\w{1,128}$/.test(hash) ? { hash, type } : null;
}

/**
 * Whether a browser reports that another site's page sent the form: it would sign its visitor in to an account of its author.
 * Programs that report nothing are not browsers.
 */
function isFromOtherSite({ headers, url }: AuthRequest, { settings }: AuthContext): boolean {
  const site = headers.get('sec-fetch-site');
  if (site !== null) return site !== 'same-origin' && site !== 'none';
  const origin = headers.get('origin');
  if (origin === null) return false;
  const ownHosts = [headers.get('host') ?? url.host, new URL(settings.externalUrl).host];
  return !URL.canParse(origin) || !ownHosts.includes(new URL(origin).host);
}

const siteOf = ({ settings }: AuthContext) => new URL(settings.siteUrl).host;

interface PageContent {
  title: string;
  text: string;
  /** With a button that uses this link. */
  link?: Link;
  button?: string;
  /** URL of a "Continue" link. */
  next?: string;
}

const style = `body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;background:#f6f1e7;color:#2a2018;font:17px/1.5 system-ui,Arial,sans-serif}
main{box-sizing:border-box;width:100%;max-width:26rem;margin:1rem;padding:2rem 1.5rem;border-radius:14px;background:#fff;text-align:center}
p{margin:0 0 1.25rem;overflow-wrap:anywhere}h1{margin:0 0 .75rem;font-size:1.6rem;line-height:1.2}
.site,.note{font-size:.9rem;color:#5c5046}.note{margin:1.25rem 0 0}
button,a{display:inline-block;box-sizing:border-box;min-height:48px;padding:.7rem 1.75rem;border:0;border-radius:10px;background:#1f5a34;color:#fff;font:inherit;font-weight:700;text-decoration:none;cursor:pointer}
button:focus-visible,a:focus-visible{outline:3px solid #1f5a34;outline-offset:3px}`;

// A double click would send the form twice, and the second answer says that the link was used.
const script = `var last=0;addEventListener('submit',function(e){var now=Date.now();if(now-last<10000)e.preventDefault();else last=now})`;

const hashOf = (content: string) => `'sha256-${createHash('sha256').update(content).digest('base64')}'`;

const headers = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex, nofollow, noarchive',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  // Without form-action: browsers apply it to the redirect after the form, too, and that may lead to another site.
  'content-security-policy': `default-src 'none'; style-src ${hashOf(style)}; script-src ${hashOf(script)}; base-uri 'none'; frame-ancestors 'none'`,
};

function page(
  status: number,
  request: AuthRequest,
  context: AuthContext,
  { title, text, link, button, next }: PageContent,
): Response {
  // Relative, because the service also answers without its prefix.
  const form = link
    ? `<form method="post" action="confirm">
${hidden('token_hash', link.hash)}${hidden('type', link.type)}${hidden('redirect_to', request.redirectTo)}
<button type="submit">${escaped(button ?? 'Continue')}</button>
</form>
<p class="note">If you did not ask for this, close this page. Nothing happens until you press the button.</p>`
    : '';
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<!-- The form reports its origin, which no-referrer would hide. -->
<meta name="referrer" content="strict-origin">
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<p class="site">${escaped(siteOf(context))}</p>
<h1>${escaped(title)}</h1>
<p>${escaped(text)}</p>
${form}${next ? `<a href="${escaped(next)}">Continue</a>` : ''}
</main>
<script>${script}</script>
</body>
</html>
`;
  return new Response(body, { status, headers });
}

const hidden = (name: string, value: string) =>
  `<input type="hidden" name="${name}" value="${escaped(value)}">`;

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escaped = (value: string): string =>
  value.replace(/[&<>"']/g, (character) => entities[character] ?? '');

export const confirmPageRoutes: readonly Route[] = [
  { method: 'GET', pattern: '/verify/confirm', needs: 'nothing', handle: showPage },
  { method: 'HEAD', pattern: '/verify/confirm', needs: 'nothing', handle: showPage },
  { method: 'POST', pattern: '/verify/confirm', needs: 'nothing', handle: pressButton },
];
