// The layout of the simulator's two pages: a self-contained document with a strict content security policy.
import { createHash } from 'node:crypto';
import { html, raw } from 'hono/html';

export type Markup = ReturnType<typeof html>;

export const pageStyle = `
:root{--ink:#1d1533;--soft:#54496f;--paper:#fff9f2;--card:#fff;--line:#e4d8e4;--leaf:#156c3c;--leaf-deep:#0e5530;--fruit:#b3261e;--focus:#1d1533;--dusk-1:#2b1a52;--dusk-2:#8b3a62;--dusk-3:#f08a4b;color-scheme:light}
*{box-sizing:border-box}
html{font:100%/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--paper)}
body{margin:0;min-height:100vh}
a{color:var(--leaf-deep)}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.4rem);line-height:1.15;letter-spacing:-.02em;margin:0 0 .75rem;text-wrap:balance}
h2{font-size:1.15rem;margin:2rem 0 .75rem}
p{margin:0 0 1rem;max-width:60ch}
main{max-width:64rem;margin:0 auto;padding:clamp(1rem,4vw,3rem)}
.badge{display:inline-block;margin:0 0 1rem;padding:.25rem .75rem;border-radius:99rem;background:#ffe3c7;color:#5b2a00;font-weight:650;font-size:.875rem}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
button,input{font:inherit;color:inherit}
.field{display:flex;flex-wrap:wrap;gap:.5rem;align-items:end;margin:0 0 1rem}
.field label{flex:1 0 100%;font-weight:600}
.field input{flex:1 1 10rem;min-width:0;max-width:16rem;padding:.65rem .8rem;border:1px solid #857a9b;border-radius:.6rem;background:var(--card)}
.main-button{padding:.65rem 1.2rem;border:0;border-radius:.6rem;background:var(--leaf);color:#fff;font-weight:650;cursor:pointer}
.main-button:hover{background:var(--leaf-deep)}
.problem{color:var(--fruit);font-weight:600}
code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.92em}
`;

/** A whole page as a response. The policy allows its style and script by hash. */
export async function pageResponse(page: {
  title: string;
  style: string;
  script?: string;
  body: Markup;
  status?: number;
}): Promise<Response> {
  const { title, style, script, body, status = 200 } = page;
  const document = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${raw(style)}</style>
</head>
<body>
${body}
${script === undefined ? '' : html`<script>${raw(script)}</script>`}
</body>
</html>
`;
  const policy = [
    "default-src 'none'",
    `style-src '${hashOf(style)}'`,
    script === undefined ? "script-src 'none'" : `script-src '${hashOf(script)}'`,
    "connect-src 'self'",
    'img-src data:',
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return new Response(String(document), {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    },
  });
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
