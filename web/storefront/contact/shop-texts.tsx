// FAQ, privacy notice and terms at the end of the contact page, which the footer and the order form link to.
import type { ShopTextSlug } from '../../../supabase/types.ts';
import { Prose } from '../../ui/prose.tsx';

export interface ShopText {
  slug: ShopTextSlug;
  title: string;
  html: string;
  updated_at: string;
}

const dates = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  timeZone: 'Africa/Nairobi',
});

export function ShopTexts({ texts }: { texts: ShopText[] }) {
  if (texts.length === 0) return null;
  return (
    <div className="page grid gap-x-16 gap-y-10 pt-20 md:pt-28 lg:grid-cols-[minmax(0,1fr)_minmax(0,2.2fr)]">
      <nav aria-labelledby="good-to-know" className="self-start lg:sticky lg:top-28">
        <h2 id="good-to-know" className="text-4xl font-extrabold">
          Good to know
        </h2>
        <ul className="mt-4">
          {texts.map(({ slug, title }) => (
            <li key={slug}>
              <a
                href={`#${slug}`}
                className="inline-flex min-h-11 items-center font-semibold text-leaf-700 underline-offset-2 hover:underline"
              >
                {title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div className="grid gap-14 md:gap-20">
        {texts.map(({ slug, title, html, updated_at }) => (
          <section
            key={slug}
            id={slug}
            tabIndex={-1}
            aria-labelledby={`${slug}-title`}
            className="scroll-mt-2 border-t border-line pt-8 outline-none! xl:scroll-mt-16 lg:first:border-0 lg:first:pt-1"
          >
            <h2 id={`${slug}-title`} className="text-3xl font-extrabold">
              {title}
            </h2>
            <p className="mt-1 mb-6 text-sm text-ink-soft">
              Updated <time dateTime={updated_at}>{dates.format(new Date(updated_at))}</time>
            </p>
            <Prose html={html} />
          </section>
        ))}
      </div>
    </div>
  );
}
