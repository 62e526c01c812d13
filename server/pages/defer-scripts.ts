// Defers the scripts of a storefront page until its main image is painted: they would compete for a slow connection.

const preloads = /<link rel="modulepreload"(?= )/g;
const startTag = '<script type="module" async="">';
const endTag = '</script>';

// Browsers request the icon and the manifest immediately, on separate connections. With JavaScript both are requested at hydration,
// because React adds missing elements. Without an icon a browser would request /favicon.ico.
const lateLinks = /<link rel="(?:icon|manifest)"[^>]*>/g;
const noIcon = '<link rel="icon" href="data:,"/>';

// Requests all modules together when the first high-priority image has been painted (or a moment after it has loaded, where it is not
// the largest element), immediately when the visitor taps or types, and after three seconds at the latest.
// The other images are loaded with the modules (see web/ui/styles/base.css). Those far below are loaded after hydration
// (web/ui/early-taps.tsx), when the visitor scrolls, or when hydration takes long.
const boot = `(function(){if(window.isBelowFloor)return;var d=document,u=d.documentElement.dataset,b=d.getElementById('late-boot'),n=['pointerdown','keydown','touchstart'],t;function all(){delete u.unpainted}function go(){if(!b)return;u.unpainted='below';addEventListener('scroll',all,{capture:true,once:true});setTimeout(all,scrollY?0:8e3);n.forEach(function(e){removeEventListener(e,go,true)});clearTimeout(t);d.querySelectorAll('link[rel=late]').forEach(function(l){l.fetchPriority='low';l.rel='modulepreload'});var s=d.createElement('script');s.type='module';s.textContent=b.textContent;s.onerror=stopWaiting;b=null;d.head.append(s)}function painted(){try{new PerformanceObserver(function(l){if(l.getEntries().some(function(e){return e.element==i}))go()}).observe({type:'largest-contentful-paint',buffered:true})}catch(e){}requestAnimationFrame(function(){setTimeout(go,250)})}n.forEach(function(e){addEventListener(e,go,{capture:true,passive:true})});t=setTimeout(go,3000);var i=d.querySelector('img[fetchpriority=high]');if(i){if(i.complete)painted();else{i.addEventListener('load',painted);i.addEventListener('error',painted)}}else if(d.readyState=='complete')painted();else addEventListener('load',painted)})()`;

// Set by a script, because without JavaScript, or below the floor, nothing would remove it.
const unpainted = `<script>window.isBelowFloor||(document.documentElement.dataset.unpainted='')</script>`;

/**
 * Rewrites a rendered page.
 * @param html the whole page as the router renders it
 * @returns the page with its modules deferred to the boot script; unchanged without modules
 */
export function deferScripts(html: string): string {
  const headEnd = html.indexOf('</head>');
  const startAt = html.indexOf(startTag, headEnd);
  const modulesEnd = html.indexOf(endTag, startAt);
  if (headEnd < 0 || startAt < 0 || modulesEnd < 0) return html;
  // Only the head and the module script are searched, because a page is long.
  const head = html.slice(0, headEnd);
  const modules = html.slice(startAt + startTag.length, modulesEnd);
  const links = head.match(lateLinks) ?? [];
  return [
    ofStorefront(head.replace(lateLinks, '').replace(preloads, '<link rel="late"')),
    `${noIcon}<noscript>${links.join('')}</noscript>${unpainted}`,
    html.slice(headEnd, startAt),
    `<script type="text/plain" id="late-boot">${ofStorefront(modules)}</script><script>${boot}</script>`,
    html.slice(modulesEnd + endTag.length),
  ].join('');
}

/**
 * Uses the storefront's own route manifest, which the build's last step creates: a visitor reaches a staff screen only by loading
 * that screen's own page.
 */
const ofStorefront = (html: string) => html.replaceAll('"/assets/manifest-', '"/assets/storefront-manifest-');
