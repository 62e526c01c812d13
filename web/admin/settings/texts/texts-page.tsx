// The texts of the contact page. The URL selects the edited one.

import { Link, useParams } from 'react-router';
import { shopTextSlugs } from '../../../../domain/messages/shop-text.ts';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { ScreenLoadState } from '../../ui/load-states.tsx';
import { PageHeading } from '../../ui/page-heading.tsx';
import { useSettings } from '../settings-queries.ts';
import type { Route } from './+types/texts-page.ts';
import { TextEditor } from './text-editor.tsx';
import { useShopTexts } from './text-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Pages');

export default function TextsPage() {
  const texts = useShopTexts();
  const settings = useSettings();
  const { slug = shopTextSlugs[0] } = useParams();
  const inOrder = shopTextSlugs.flatMap((each) => texts.data?.filter((text) => text.slug === each) ?? []);
  const selected = inOrder.find((text) => text.slug === slug);

  return (
    <div className="grid max-w-6xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading up={{ to: '/admin/settings?section=pages', name: 'Settings' }} heading="Pages">
        At the foot of the contact page, where the footer and the order form link to. A change is shown at
        once.
      </PageHeading>
      {texts.data && settings.data ? (
        <>
          <nav aria-label="Pages">
            <ul className="flex flex-wrap gap-x-6 border-b border-line">
              {inOrder.map((text) => (
                <li key={text.slug}>
                  <Link
                    to={`/admin/settings/texts/${text.slug}`}
                    aria-current={text.slug === slug ? 'page' : undefined}
                    className="inline-flex min-h-11 items-center rounded-none border-b-3 border-transparent font-semibold text-ink-soft hover:text-ink aria-[current]:border-ember-400 aria-[current]:text-ink"
                  >
                    {text.title}
                  </Link>
                </li>
              ))}
            </ul>
          </nav>
          {selected ? (
            <TextEditor key={selected.slug} latest={selected} facts={settings.data} />
          ) : (
            <p>There is no such text.</p>
          )}
        </>
      ) : (
        <ScreenLoadState noun="texts" queries={[texts, settings]} />
      )}
    </div>
  );
}
