// Puts off the scripts of a storefront page until its picture is painted: they would share a slow line with it.

const preloads = /<link rel="modulepreload"(?= )/g;
const startTag = '<script type="module" async="">';
const endTag = '</script>';

// The icon of the tab and what a phone needs to install the shop are asked for at once, on lines of their own. Who runs scripts gets
// both when the page comes alive: React adds what it finds missing. Without an icon a browser would ask for /favicon.ico.
const lateLinks = /<link rel="(?:icon|manifest)"[^>]*>/g;
const noIcon = '<link rel="icon" href="data:,"/>';

// Begins when the first picture of high priority has painted (where it is not the largest thing of the screen, a moment after it
// has come), at once where somebody taps or types, and after three seconds whatever happens. Only then are the modules asked
// for, all of them together.
// The other pictures come with them (see web/ui/base.css), those far below only when the page is alive (web/ui/early-taps.tsx),
// when somebody scrolls, or when it has not come alive for long.
const boot = `(function(){var d=document,u=d.documentElement.dataset,b=d.getElementById('late-boot'),n=['pointerdown','keydown','touchstart'],t;function all(){delete u.unpainted}function go(){if(!b)return;u.unpainted='below';addEventListener('scroll',all,{capture:true,once:true});setTimeout(all,scrollY?0:8e3);n.forEach(function(e){removeEventListener(e,go,true)});clearTimeout(t);d.querySelectorAll('link[rel=late]').forEach(function(l){l.fetchPriority='low';l.rel='modulepreload'});var s=d.createElement('script');s.type='module';s.textContent=b.textContent;b=null;d.head.append(s)}function painted(){try{new PerformanceObserver(function(l){if(l.getEntries().some(function(e){return e.element==i}))go()}).observe({type:'largest-contentful-paint',buffered:true})}catch(e){}requestAnimationFrame(function(){setTimeout(go,250)})}n.forEach(function(e){addEventListener(e,go,{capture:true,passive:true})});t=setTimeout(go,3000);var i=d.querySelector('img[fetchpriority=high]');if(i){if(i.complete)painted();else{i.addEventListener('load',painted);i.addEventListener('error',painted)}}else if(d.readyState=='complete')painted();else addEventListener('load',painted)})()`;

// Not in the markup: without scripts nobody would take it back.
const unpainted = `<script>document.documentElement.dataset.unpainted=''</script>`;

/**
 * Rewrites a rendered page.
 * @param html the whole page as the router renders it
 * @returns the page whose modules are not asked for until its small boot script does so; as it came when it has none
 */
export function bootLate(html: string): string {
  const headEnd = html.indexOf('</head>');
  const startAt = html.indexOf(startTag, headEnd);
  const modulesEnd = html.indexOf(endTag, startAt);
  if (headEnd < 0 || startAt < 0 || modulesEnd < 0) return html;
  // A page is long, and what lies between these two is none of ours: it is not searched.
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
 * Names the storefront's list of routes, which the build's last step makes: nobody goes from here to a staff screen without loading
 * that screen's own page.
 */
const ofStorefront = (html: string) => html.replaceAll('"/assets/manifest-', '"/assets/storefront-manifest-');
