// Keeps scripts from starting in a browser below the floor, where the forms work without them.
import { canRunScripts } from '../../domain/browser-floor.ts';

const headEnd = '</head>';
const startTag = '<script type="module" async="">';
const gate = `<script>window.isBelowFloor=!${canRunScripts}</script>`;

// React Router's own scripts: the page's data, and the scroll position after a reload. The second one fails where storage is disabled.
const dataScripts = /<script>(window\.__reactRouterContext[\s\S]*?)<\/script>/g;
const scrollScript = /<script>(\(\(storageKey\w*, restoreKey\w*\) => \{[\s\S]*?)<\/script>/;

/**
 * Rewrites a rendered page. Inline scripts without a condition of their own must be written in the oldest syntax.
 * @param html the whole page, with its modules deferred by `deferScripts` or `startScripts`
 * @returns the page with a check of the browser in its head, on which all other scripts depend
 */
export function gateScripts(html: string): string {
  const head = html.indexOf(headEnd);
  if (head < 0) return html;
  const firstScript = html.indexOf('<script');
  const at = firstScript < 0 ? head : Math.min(firstScript, head);
  const body = html
    .slice(at)
    .replace(
      scrollScript,
      (_, script) => `<script>if(!isBelowFloor)try{sessionStorage.length;${script}}catch(e){}</script>`,
    )
    .replace(dataScripts, (_, script) => `<script>if(!isBelowFloor){${script}}</script>`);
  return html.slice(0, at) + gate + body;
}

// Without scripts a staff screen has no content: its notice (`web/admin/ui/panel-loading.tsx`) replaces the loading state.
const start =
  "(function(){var d=document,w=window.stopWaiting,s=d.createElement('script'),n=d.getElementById('browser-notice'),l=d.getElementById('loading');" +
  'function fail(){if(n)n.hidden=false;if(l)l.hidden=true}if(window.isBelowFloor)return fail();' +
  'window.stopWaiting=function(){w&&w();fail()};' +
  "s.type='module';s.textContent=d.getElementById('late-boot').textContent;s.onerror=stopWaiting;d.head.appendChild(s)})()";

/**
 * Rewrites a rendered staff page.
 * @returns the page with its modules started by a script that shows the notice about browsers if they cannot run; unchanged without modules
 */
export function startScripts(html: string): string {
  const at = html.indexOf(startTag);
  const end = html.indexOf('</script>', at);
  if (at < 0 || end < 0) return html;
  const modules = html.slice(at + startTag.length, end);
  return `${html.slice(0, at)}<script type="text/plain" id="late-boot">${modules}</script><script>${start}${html.slice(end)}`;
}
