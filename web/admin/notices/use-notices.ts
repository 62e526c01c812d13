// What this tab does about notices: toasts, sounds, notifications, and the push subscription of the device.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { describeNotice, type Notice } from '../../../domain/messages/notice-text.ts';
import { serviceWorkers } from '../../lib/browser/browser-storage.ts';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { closeNotifications, notificationSupport, notify, subscribeDevice } from './device-notifications.ts';
import { deviceSettings, useDeviceSettings } from './device-settings.ts';
import { planNotices } from './plan-notices.ts';
import { playSound, useSoundState, watchSounds } from './sounds.ts';

type WaitingNotice = Notice & { id: string };

const repeatMs = 20_000;
/** Besides the live channel: an order that waits must be heard although the channel is interrupted. */
const pollMs = 60_000;
const soundLock = 'jani.staff.sound';

/** @param isActive false while the first screen loads, and after the end of the session */
export function useNotices(isActive: boolean): void {
  const waiting = useWaitingNotices(isActive);
  const settings = useDeviceSettings();
  const navigate = useNavigate();
  const go = useRef(navigate);
  go.current = navigate;
  const makesSounds = useSounds(isActive && settings.volume !== 'off');
  const isSounding = useRef(makesSounds);
  isSounding.current = makesSounds;

  const known = useRef<ReadonlySet<string> | null>(null);
  useEffect(() => {
    if (!waiting) return;
    const chosen = deviceSettings();
    const { fresh, notifications, ended, sound } = planNotices(known.current, waiting, chosen);
    known.current = new Set(waiting.map(({ id }) => id));
    for (const notice of fresh) {
      const { title, text, path } = describeNotice(notice, { withNames: true });
      const label = notice.kind === 'inquiry' ? 'Read' : 'View';
      const action = { label, run: () => void go.current(path) };
      showToast({ kind: 'info', title, text, topic: notice.kind, action });
    }
    if (sound && isSounding.current) void playSound(sound, chosen.volume);
    // The same notices are pushed to a device that is subscribed.
    if (!chosen.isPushed) notify(notifications);
    if (ended.length > 0 && chosen.notifies) closeNotifications(ended);
  }, [waiting]);

  const { volume } = settings;
  const isRepeating = makesSounds && planNotices(null, waiting ?? [], settings).isRepeating;
  useEffect(() => {
    if (!isRepeating) return;
    const timer = setInterval(() => void playSound('new', volume), repeatMs);
    return () => clearInterval(timer);
  }, [isRepeating, volume]);

  useSubscription(isActive);
  useNotificationPresses((path) => void go.current(path));
}

/** The notices that nobody has dealt with, the newest first. */
function useWaitingNotices(isActive: boolean): WaitingNotice[] | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['notices'],
    enabled: isActive,
    refetchInterval: pollMs,
    refetchIntervalInBackground: true,
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('waiting_notices').abortSignal(signal)) as unknown as WaitingNotice[],
  }).data;
}

/** @returns whether this tab makes the sounds: one tab of the device that the browser allows to make some */
function useSounds(isWanted: boolean): boolean {
  useEffect(() => (isWanted ? watchSounds() : undefined), [isWanted]);
  const isReady = useSoundState() === 'ready' && isWanted;
  const [isChosen, setChosen] = useState(false);
  useEffect(() => {
    if (!isReady) return;
    // Older browsers have no locks: each tab sounds.
    const locks = navigator.locks as LockManager | undefined;
    if (!locks) {
      setChosen(true);
      return () => setChosen(false);
    }
    const waits = new AbortController();
    let release = () => {};
    locks
      .request(soundLock, { signal: waits.signal }, () => {
        setChosen(true);
        return new Promise<void>((done) => {
          release = done;
        });
      })
      .catch(() => {});
    return () => {
      waits.abort();
      release();
      setChosen(false);
    };
  }, [isReady]);
  return isChosen;
}

/** Renews the subscription of a device that wants pushes: its session may be new, its browser's subscription, or its kinds. */
function useSubscription(isActive: boolean): void {
  const { staff } = useMember();
  const { isPushed, kinds } = useDeviceSettings();
  useEffect(() => {
    if (!isActive || !isPushed || notificationSupport() !== 'allowed') return;
    subscribeDevice(staff, { kinds }).catch((error: unknown) =>
      console.warn('This device gets no pushes', error),
    );
  }, [staff, isActive, isPushed, kinds]);
}

/** Opens the screen of a notification that was pressed. */
function useNotificationPresses(open: (path: string) => void): void {
  const latest = useRef(open);
  latest.current = open;
  useEffect(() => {
    const workers = serviceWorkers();
    const onMessage = ({ data }: MessageEvent) => {
      const { type, path } = (data ?? {}) as { type?: unknown; path?: unknown };
      if (type === 'open-notice' && typeof path === 'string' && path.startsWith('/admin/'))
        latest.current(path);
    };
    workers?.addEventListener('message', onMessage);
    return () => workers?.removeEventListener('message', onMessage);
  }, []);
}
