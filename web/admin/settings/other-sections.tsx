// The section of the settings with the pages (backups: backups-section.tsx).
import { shopTextSlugs } from '../../../domain/messages/shop-text.ts';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { Screens } from './section-cards.tsx';
import { useShopTexts } from './texts/text-queries.ts';

/** The texts of the contact page, by their titles. */
export function PagesSection() {
  const texts = useShopTexts();
  if (!texts.data) return <ScreenLoadState noun="pages" queries={[texts]} />;
  const inOrder = shopTextSlugs.flatMap((slug) => texts.data.filter((text) => text.slug === slug));
  return (
    <Screens
      screens={inOrder.map(({ slug, title }) => ({
        label: title,
        words: 'At the foot of the contact page, where the footer and the order form link to',
        to: `/admin/settings/texts/${slug}`,
      }))}
    />
  );
}
