// The pages of flavors and brands, and what each says. A text is edited while the URL has `?edit=<kind>-<slug>`.
import { Button } from '../../../ui/button.tsx';
import { FlavourDot } from '../../../ui/flavour.tsx';
import { useDialogOpener } from '../../dialogs/use-dialog-parameter.ts';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { ScreenLoadState } from '../../ui/load-states.tsx';
import { PageHeading } from '../../ui/page-heading.tsx';
import type { Route } from './+types/pages-page.ts';
import { idOf, PageDialog } from './page-editor.tsx';
import { type PageRow, pathOf, usePages } from './page-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Flavor and brand pages');

export default function PagesPage() {
  const query = usePages();
  const pages = query.data;
  return (
    <div className="grid max-w-6xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading up={{ to: '/admin/products', name: 'Products' }} heading="Flavor and brand pages">
        Each flavor and brand has a page with its drinks, which search engines can find. Say what makes it
        special.
      </PageHeading>
      {pages ? (
        <div className="grid items-start gap-6 lg:grid-cols-2">
          <PageList title="Flavors" pages={pages.filter(({ kind }) => kind === 'flavor')} />
          <PageList title="Brands" pages={pages.filter(({ kind }) => kind === 'brand')} />
        </div>
      ) : (
        <ScreenLoadState noun="pages" queries={[query]} />
      )}
      <PageDialog query={query} />
    </div>
  );
}

function PageList({ title, pages }: { title: string; pages: PageRow[] }) {
  const open = useDialogOpener('edit');
  return (
    <section className="grid gap-3">
      <h2 className="text-xl font-bold">{title}</h2>
      {pages.length === 0 ? (
        <p className="text-ink-soft">There are none yet.</p>
      ) : (
        <ul aria-label={title} className="rounded-lg border border-line bg-card">
          {pages.map((page) => (
            <li
              key={page.slug}
              aria-label={page.name}
              className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2 border-line px-4 py-3 not-first:border-t"
            >
              <div className="min-w-0 flex-1 basis-60">
                <h3 className="flex items-center gap-2 font-semibold wrap-anywhere">
                  {page.kind === 'flavor' ? <FlavourDot category={page.name} /> : null}
                  {page.name}
                </h3>
                <p className="text-sm">
                  {!page.is_active ? (
                    <span className="text-ink-soft">Not shown: the category is inactive.</span>
                  ) : page.products === 0 ? (
                    <span className="text-ink-soft">Not shown: it has no active drink.</span>
                  ) : (
                    <a href={pathOf(page)} className="tap underline">
                      {pathOf(page)}
                    </a>
                  )}
                </p>
                <p className="mt-1 line-clamp-2 text-sm wrap-anywhere text-ink-soft">
                  {page.page_text || 'No text yet.'}
                </p>
              </div>
              <Button
                tone="quiet"
                onClick={() => open(idOf(page))}
                aria-haspopup="dialog"
                aria-label={`Edit text: ${page.name}`}
              >
                Edit text
              </Button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
