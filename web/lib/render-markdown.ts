// Renders staff's Markdown as safe HTML: HTML in it is escaped, images and unusual links are removed.
import MarkdownIt from 'markdown-it';

/** Allowed links: web pages, e-mail addresses, phone numbers and paths of the shop. */
const safeLink = /^(?:https?:\/\/|mailto:|tel:|\/(?!\/)|#)/i;

const markdown = new MarkdownIt('default', { html: false, linkify: false, typographer: false });
markdown.disable(['image', 'table']);
markdown.validateLink = (address) => safeLink.test(address);
// The page itself uses the first two heading levels.
markdown.core.ruler.push('lower_headings', ({ tokens }) => {
  for (const token of tokens) {
    if (token.type !== 'heading_open' && token.type !== 'heading_close') continue;
    token.tag = `h${Math.min(6, Math.max(3, Number(token.tag.slice(1)) + 1))}`;
  }
});
markdown.renderer.rules.link_open = (tokens, index, options, _environment, renderer) => {
  const token = tokens[index];
  if (/^https?:/i.test(String(token?.attrGet('href') ?? ''))) token?.attrSet('rel', 'noreferrer');
  return renderer.renderToken(tokens, index, options);
};

/**
 * Renders Markdown (CommonMark without HTML, images and tables).
 * @param text of bounded length
 * @returns HTML whose headings begin at level 3
 */
export const renderMarkdown = (text: string): string => markdown.render(text);
