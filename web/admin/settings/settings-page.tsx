// The store's settings: name, contacts, delivery fee. The storefront shows changes at once.

import { describeStaffPage } from '../layout/staff-page.ts';
import { ScreenLoadState } from '../ui/load-states.tsx';
import type { Route } from './+types/settings-page.ts';
import { SettingsForm } from './settings-form.tsx';
import { useSettings } from './settings-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Settings');

export default function SettingsPage() {
  const settings = useSettings();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <div>
        <h1 className="text-3xl">Settings</h1>
        <p className="mt-1 text-ink-soft">Used on every page of the shop. Changes show at once.</p>
      </div>
      {settings.data ? (
        <SettingsForm latest={settings.data} />
      ) : (
        <ScreenLoadState noun="settings" queries={[settings]} />
      )}
    </div>
  );
}
