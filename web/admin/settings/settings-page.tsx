// The store's settings: name, contacts, delivery fee. The storefront shows changes at once.
import { useSearchParams } from 'react-router';
import { describeStaffPage } from '../layout/staff-page.ts';
import { PausableHeading } from '../pause/pause-orders.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import type { Route } from './+types/settings-page.ts';
import { SettingsForm } from './settings-form.tsx';
import { useSettings } from './settings-queries.ts';
import { readSection } from './settings-sections.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Settings');

export default function SettingsPage() {
  const settings = useSettings();
  // Where there is no room for the index beside it, a section has its own heading.
  const isSection = readSection(useSearchParams()[0].get('section')) !== null;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <PausableHeading>
        <div className={isSection ? 'max-lg:sr-only' : ''}>
          <h1 className="text-3xl">Settings</h1>
          <p className="mt-1 text-ink-soft">Used on every page of the shop. Changes show at once.</p>
        </div>
      </PausableHeading>
      {settings.data ? (
        <SettingsForm latest={settings.data} />
      ) : (
        <ScreenLoadState noun="settings" queries={[settings]} />
      )}
    </div>
  );
}
