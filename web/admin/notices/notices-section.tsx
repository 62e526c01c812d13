// The notices of this device: sounds, notifications, counts, and which events they are about.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { noticeKinds } from '../../../domain/messages/notice-text.ts';
import { ShownError } from '../../lib/shown-error.ts';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useAction } from '../../ui/use-action.ts';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import {
  askForNotifications,
  type NotificationSupport,
  notificationSupport,
  ownEndpoint,
  subscribeDevice,
  unsubscribeDevice,
} from './device-notifications.ts';
import {
  allKinds,
  changeDeviceSettings,
  useDeviceSettings,
  type Volume,
  volumes,
} from './device-settings.ts';
import { playSound, useSoundState } from './sounds.ts';

const volumeLabels: Record<Volume, string> = { off: 'Off', quiet: 'Quiet', normal: 'Normal', loud: 'Loud' };

/** Why there are none, and what to do. */
const whyNot: Partial<Record<NotificationSupport, string>> = {
  insecure: 'Browsers show notifications only for a shop with an https address.',
  'not-installed':
    'On an iPhone or iPad, notifications need the installed app: press Share, then “Add to Home Screen”, and open the panel from there.',
  unsupported: 'This browser shows no notifications. Chrome, Edge, Firefox and Safari do.',
  denied:
    'Notifications are blocked for this shop. Press the icon before the address, allow Notifications, and load this page again. In the installed app, allow them in the settings of the phone.',
};

export function NoticesSection() {
  const settings = useDeviceSettings();
  const { volume, repeats, countsInTitle, countsOnIcon, kinds } = settings;
  return (
    <div className="grid gap-4">
      <div>
        <Sound volume={volume} />
        <Switch
          label="Repeat every 20 seconds until someone takes the new order"
          isOn={repeats}
          isDisabled={volume === 'off'}
          onChange={(repeats) => changeDeviceSettings({ repeats })}
        />
      </div>
      <Notifications />
      <Group title="About">
        {allKinds.map((kind) => (
          <Switch
            key={kind}
            label={noticeKinds[kind]}
            isOn={kinds.includes(kind)}
            onChange={(isOn) =>
              changeDeviceSettings({
                kinds: allKinds.filter((known) => (known === kind ? isOn : kinds.includes(known))),
              })
            }
          />
        ))}
      </Group>
      <Group title="Count what waits">
        <Switch
          label="In the title of the tab"
          isOn={countsInTitle}
          onChange={(countsInTitle) => changeDeviceSettings({ countsInTitle })}
        />
        <Switch
          label="On the icon of the installed app"
          isOn={countsOnIcon}
          onChange={(countsOnIcon) => changeDeviceSettings({ countsOnIcon })}
        />
      </Group>
      <OtherDevices />
    </div>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset>
      <legend className="text-sm font-bold">{title}</legend>
      <div className="grid gap-x-4 sm:grid-cols-2">{children}</div>
    </fieldset>
  );
}

interface SwitchProps {
  label: string;
  isOn: boolean;
  isDisabled?: boolean;
  onChange(isOn: boolean): void;
}

function Switch({ label, isOn, isDisabled = false, onChange }: SwitchProps) {
  return (
    <label className="flex min-h-11 items-center gap-3 text-sm font-semibold has-disabled:text-ink-faint">
      <input
        type="checkbox"
        checked={isOn}
        disabled={isDisabled}
        onChange={({ target }) => onChange(target.checked)}
        className="size-5 shrink-0 accent-leaf-600"
      />
      {label}
    </label>
  );
}

function Sound({ volume }: { volume: Volume }) {
  const state = useSoundState();
  const name = useId();
  const isOff = volume === 'off';
  return (
    <fieldset>
      <legend className="text-sm font-bold">Sound</legend>
      <div className="mt-1 mb-1 flex flex-wrap items-center gap-2">
        <div className="flex rounded-pill bg-paper-deep p-0.5">
          {volumes.map((one) => (
            <label
              key={one}
              className="grid min-h-11 cursor-pointer place-items-center rounded-pill px-3 text-sm font-semibold has-checked:bg-dusk-800 has-checked:text-white has-focus-visible:outline-2 has-focus-visible:outline-dusk-600"
            >
              <input
                type="radio"
                name={name}
                className="sr-only"
                checked={volume === one}
                onChange={() => {
                  changeDeviceSettings({ volume: one });
                  void playSound('new', one);
                }}
              />
              {volumeLabels[one]}
            </label>
          ))}
        </div>
        <Button tone="quiet" className="px-4!" disabled={isOff} onClick={() => void playSound('new', volume)}>
          Test
        </Button>
      </div>
      <p role="status" className="mt-1 text-sm text-ink-soft empty:hidden">
        {isOff
          ? null
          : state === 'blocked'
            ? 'Press once anywhere so that this device may make sounds.'
            : state === 'unsupported'
              ? 'This browser makes no sounds.'
              : null}
      </p>
    </fieldset>
  );
}

function Notifications() {
  const { staff } = useMember();
  const queries = useQueryClient();
  const settings = useDeviceSettings();
  const [support, setSupport] = useState(notificationSupport);
  const [problem, setProblem] = useState<string | null>(null);
  const { isRunning, run } = useAction();
  const { notifies, isPushed } = settings;
  const isOn = notifies && support === 'allowed';
  const change = (work: () => Promise<void>) =>
    run(
      async () => {
        setProblem(null);
        await work();
        await queries.invalidateQueries({ queryKey: ['devices'] });
      },
      (error) => {
        console.warn('Notifications could not be changed', error);
        setProblem(
          error instanceof ShownError ? error.message : 'Please check the connection and try again.',
        );
      },
    );

  const push = async () => {
    await subscribeDevice(staff, settings);
    changeDeviceSettings({ isPushed: true });
  };
  const endPush = async () => {
    changeDeviceSettings({ isPushed: false });
    const endpoint = await ownEndpoint();
    await unsubscribeDevice();
    if (!endpoint) return;
    const { error } = await staff.tables.from('push_subscriptions').delete().eq('endpoint', endpoint);
    if (error) throw new Error(error.message);
  };
  const setNotifies = (wanted: boolean) =>
    change(async () => {
      if (!wanted) {
        changeDeviceSettings({ notifies: false });
        await endPush();
        return;
      }
      const now = support === 'allowed' ? support : await askForNotifications();
      setSupport(now);
      if (now !== 'allowed') return;
      changeDeviceSettings({ notifies: true });
      await push();
    });

  return (
    <fieldset aria-busy={isRunning || undefined}>
      <legend className="text-sm font-bold">Notifications</legend>
      {support === 'not-asked' ? (
        <p className="text-sm text-ink-soft">Your browser will ask whether to allow them.</p>
      ) : null}
      {whyNot[support] ? <p className="mt-1 text-sm text-ink-soft">{whyNot[support]}</p> : null}
      {support === 'allowed' || support === 'not-asked' ? (
        <>
          <Switch
            label="While the panel is in the background"
            isOn={isOn}
            isDisabled={isRunning}
            onChange={setNotifies}
          />
          <Switch
            label="Also when the panel is closed"
            isOn={isOn && isPushed}
            isDisabled={!isOn || isRunning}
            onChange={(wanted) => change(wanted ? push : endPush)}
          />
        </>
      ) : null}
      <p role="status" className="text-sm text-ink-soft empty:hidden">
        {isRunning ? 'Asking the browser...' : null}
      </p>
      {problem ? <Notice tone="danger" title={problem} /> : null}
    </fieldset>
  );
}

/** Devices of the member that get pushes, this one included. */
function OtherDevices() {
  const { staff } = useMember();
  const queries = useQueryClient();
  const { isRunning, run } = useAction();
  const [problem, setProblem] = useState<string | null>(null);
  const { data: devices } = useQuery({
    queryKey: ['devices'],
    queryFn: async ({ signal }) => {
      const [answer, endpoint] = await Promise.all([
        staff.tables
          .from('push_subscriptions')
          .select('id, endpoint, device, created_at, last_sent_at')
          .order('created_at')
          .abortSignal(signal),
        ownEndpoint(),
      ]);
      return dataOf(answer).map((device) => ({ ...device, isThis: device.endpoint === endpoint }));
    },
  });
  const remove = (id: string, isThis: boolean) =>
    run(
      async () => {
        setProblem(null);
        if (isThis) {
          changeDeviceSettings({ isPushed: false });
          await unsubscribeDevice();
        }
        const { error } = await staff.tables.from('push_subscriptions').delete().eq('id', id);
        if (error) throw new Error(error.message);
        await queries.invalidateQueries({ queryKey: ['devices'] });
      },
      (error) => {
        console.warn('A device could not be removed', error);
        setProblem('The device could not be removed. Please check the connection and try again.');
      },
    );
  if (!devices || devices.length === 0) return null;
  return (
    <section aria-label="Devices that get notices while the panel is closed">
      <p className="text-sm font-bold">Your devices that get notices while the panel is closed</p>
      <ul className="mt-1 grid divide-y divide-line rounded-md border border-line">
        {devices.map(({ id, device, created_at, last_sent_at, isThis }) => (
          <li key={id} className="flex items-center justify-between gap-3 px-3 py-1.5 text-sm">
            <p className="min-w-0">
              <span className="font-semibold">
                {device}
                {isThis ? ' (this device)' : ''}
              </span>
              <span className="block text-ink-soft">
                {last_sent_at
                  ? `last notice ${formatDateTime(last_sent_at)}`
                  : `since ${formatDateTime(created_at)}`}
              </span>
            </p>
            <Button tone="quiet" isBusy={isRunning} onClick={() => remove(id, isThis)}>
              Remove<span className="sr-only"> {device}</span>
            </Button>
          </li>
        ))}
      </ul>
      {problem ? <Notice tone="danger" title={problem} /> : null}
    </section>
  );
}
