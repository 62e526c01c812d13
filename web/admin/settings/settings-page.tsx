// The store's settings: who the shop is, how it is reached, what delivery costs. The storefront shows a change at once.
import { Button } from '../../ui/button.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { describeStaffPage } from '../staff-page.ts';
import type { Route } from './+types/settings-page.ts';
import { SettingsForm } from './settings-form.tsx';
import { useSettings } from './settings-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Settings');

export default function SettingsPage() {
  const { data, error, isFetching, refetch } = useSettings();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <div>
        <h1 className="text-3xl">Settings</h1>
        <p className="mt-1 text-ink-soft">What every page of the shop reads. A change is shown at once.</p>
      </div>
      {data ? (
        <SettingsForm latest={data} />
      ) : error ? (
        <div role="alert" className="grid justify-items-start gap-3">
          <p className="font-display text-xl font-bold">The settings could not be loaded</p>
          <p className="text-ink-soft">Nothing was changed. Please check the connection and try again.</p>
          <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </div>
      ) : (
        <div className="grid min-h-64 place-items-center">
          <Spinner label="Loading settings..." />
        </div>
      )}
    </div>
  );
}
