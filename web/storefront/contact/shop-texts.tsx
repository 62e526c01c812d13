// FAQ, privacy notice and terms at the end of the contact page, which the footer and the order form link to. Each is collapsed until
// it is asked for.
import { useLayoutEffect } from 'react';
import { useLocation } from 'react-router';
import type { ShopTextSlug } from '../../../supabase/types.ts';
import { Icon } from '../../ui/icons.tsx';
import { Prose } from '../../ui/prose.tsx';

export interface ShopText {
  slug: ShopTextSlug;
  title: string;
  html: string;
  updated_at: string;
  /** Its day in words, written by the server. */
  updated: string;
}

export function ShopTexts({ texts }: { texts: ShopText[] }) {
  const { hash, key } = useLocation();
  // Before the page scrolls to it. Browsers open it themselves when a document loads, but not on a navigation by script.
  // biome-ignore lint/correctness/useExhaustiveDependencies: also when the same link is followed again
  useLayoutEffect(() => {
    const text = hash ? document.getElementById(hash.slice(1))?.closest('details') : null;
    if (text) text.open = true;
  }, [hash, key]);

  if (texts.length === 0) return null;
  return (
    <section aria-labelledby="good-to-know" className="page pt-12 md:pt-24">
      <h2 id="good-to-know" className="text-3xl font-extrabold md:text-4xl">
        Good to know
      </h2>
      <div className="mt-4 border-b border-line md:mt-6">
        {texts.map(({ slug, title, html, updated_at, updated }) => (
          <details key={slug} className="group border-t border-line">
            <summary className="flex min-h-14 list-none items-center justify-between gap-4 py-2 hover:text-leaf-700 [&::-webkit-details-marker]:hidden">
              <h2 className="text-xl">{title}</h2>
              <Icon
                name="chevron"
                className="size-6 transition-[rotate] duration-(--duration-slow) group-open:rotate-180"
              />
            </summary>
            {/* Inside, because browsers open the text for a link to its content. */}
            <section
              id={slug}
              tabIndex={-1}
              aria-label={title}
              className="max-w-text scroll-mt-16 pb-10 outline-none! xl:scroll-mt-32"
            >
              <p className="mb-5 text-sm text-ink-soft">
                Updated <time dateTime={updated_at}>{updated}</time>
              </p>
              <Prose html={html} />
            </section>
          </details>
        ))}
      </div>
    </section>
  );
}
