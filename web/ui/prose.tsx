// Rendered Markdown, on the storefront and in the staff preview.

const style =
  'max-w-text break-words text-ink-soft [&>*:first-child]:mt-0 [&_a]:font-semibold [&_a]:text-leaf-700 [&_a]:underline [&_a]:underline-offset-2 [&_a[href^=tel]]:whitespace-nowrap [&_blockquote]:border-l-4 [&_blockquote]:border-ember-200 [&_blockquote]:pl-4 [&_code]:font-mono [&_h3]:mt-8 [&_h3]:mb-2 [&_h3]:text-xl [&_h3]:text-ink [&_h4]:mt-6 [&_h4]:mb-2 [&_h4]:text-lg [&_h4]:text-ink [&_li]:mt-1.5 [&_ol]:list-decimal [&_ol]:pl-5 [&_p]:mt-3 [&_strong]:text-ink [&_ul]:mt-3 [&_ul]:list-disc [&_ul]:pl-5';

/** @param html only from `renderMarkdown`, which sanitises it */
export function Prose({ html }: { html: string }) {
  return <div className={style} dangerouslySetInnerHTML={{ __html: html }} />;
}
