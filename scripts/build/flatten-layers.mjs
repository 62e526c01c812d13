// The style sheets for browsers without cascade layers (Chrome below 99, Safari below 15.4), which skip every `@layer` block.

/**
 * Rewrites a built style sheet. Its layers follow each other in their order, so that without them the order of the rules decides.
 * @param {string} css minified
 * @returns {string} the same rules without layers, and with what these browsers have in place of newer units and properties
 */
export function flattenLayers(css) {
  return unwrapLayers(css)
    .replaceAll(/([\d.]+)[dsl]v([hw])\b/g, '$1v$2')
    .replaceAll('aspect-ratio:var(--aspect-video)', 'aspect-ratio:16/9')
    .replaceAll(
      /([^{}]+)\{aspect-ratio:([\d.]+)(?:\/([\d.]+))?\}/g,
      (rule, selector, width, height = 1) =>
        `${rule}@supports not (aspect-ratio:1){${selector}::before{content:"";display:block;padding-top:${(100 * height) / width}%}}`,
    )
    .replaceAll(
      /([{;])translate:([^;}]+)/g,
      (_, before, value) => `${before}translate:${value};transform:${transformOf(value)}`,
    );
}

/** `translate: 100% 0` as older browsers write it. */
function transformOf(value) {
  const parts = value.match(/var\([^)]*\)|\S+/g) ?? [];
  return `translate(${parts.join(',')})`;
}

function unwrapLayers(css) {
  let flat = '';
  let from = 0;
  for (;;) {
    const at = css.indexOf('@layer', from);
    if (at < 0) return flat + css.slice(from);
    flat += css.slice(from, at);
    const [head] = /^[^{;]*[{;]/.exec(css.slice(at));
    from = at + head.length;
    if (head.endsWith(';')) continue;
    const end = blockEnd(css, from);
    flat += unwrapLayers(css.slice(from, end));
    from = end + 1;
  }
}

/** Position of the brace that closes the block starting at a position. Skips strings and escaped characters. */
function blockEnd(css, start) {
  const tokens = /\\[\s\S]|"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|[{}]/g;
  tokens.lastIndex = start;
  let depth = 1;
  for (let found = tokens.exec(css); found; found = tokens.exec(css)) {
    if (found[0] === '{') depth += 1;
    else if (found[0] === '}') depth -= 1;
    if (depth === 0) return found.index;
  }
  throw new Error('A layer of a style sheet has no end');
}
