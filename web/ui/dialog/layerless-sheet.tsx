// Loads the style sheet without cascade layers (`scripts/build/flatten-layers.mjs`) where the browser skips them: Chrome below 99, Safari
// below 15.4. Others run only the check.

// `--layers` is set inside a layer (`base.css`). The router adds a `#` to the sheet of a shared chunk.
const script =
  "(function(d){var s=d.getElementById('storefront-sheet'),f=s&&s.getAttribute('data-file'),n=d.createElement('link');" +
  "for(var l=d.querySelectorAll('link[rel=stylesheet]'),i=0;!f&&i<l.length;i++)if(/\\/staff-[\\w-]{8}\\.css#?$/.test(l[i].href))f=l[i].href.replace('#','');" +
  "if(!f||!window.getComputedStyle||getComputedStyle(d.documentElement).getPropertyValue('--layers'))return;" +
  "d.documentElement.setAttribute('data-layerless','');n.rel='stylesheet';n.href=f.replace(/\\.css$/,'.flat.css');d.head.appendChild(n)})(document)";

/** Render it after the page's style sheet. The content security policy contains its hash. */
export function LayerlessSheet() {
  // The script has already run, and React keeps the server's markup.
  return (
    <script
      suppressHydrationWarning
      dangerouslySetInnerHTML={{ __html: import.meta.env.SSR ? script : '' }}
    />
  );
}
