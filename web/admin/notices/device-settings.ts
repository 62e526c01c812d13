// What a member chose for the notices of this device.
import { useSyncExternalStore } from 'react';
import { noticeKinds } from '../../../domain/messages/notice-text.ts';
import type { NoticeKind } from '../../../supabase/types.ts';
import { onStoredElsewhere, readStored, writeStored } from '../../lib/browser/browser-storage.ts';
import { keysOf } from '../data/keys-of.ts';

export const volumes = ['off', 'quiet', 'normal', 'loud'] as const;
export type Volume = (typeof volumes)[number];

export interface DeviceSettings {
  volume: Volume;
  /** Whether the sound of a new paid order is repeated until someone takes the order. */
  repeats: boolean;
  /** Whether notices appear as notifications of the browser while the panel is in the background. */
  notifies: boolean;
  /** Whether they are pushed to this device while the panel is closed. */
  isPushed: boolean;
  /** Whether what waits is counted in the title of the tab. */
  countsInTitle: boolean;
  /** Whether it is counted on the icon of the installed app. */
  countsOnIcon: boolean;
  /** Kinds of notices that make a sound, and that are notifications. */
  kinds: readonly NoticeKind[];
}

const key = 'jani.staff.notices';
export const allKinds = keysOf(noticeKinds);
const defaults: DeviceSettings = {
  volume: 'normal',
  repeats: false,
  notifies: false,
  isPushed: false,
  countsInTitle: true,
  countsOnIcon: true,
  kinds: allKinds,
};

/** Kinds that a device chose among while it did not store which ones it knew. */
const firstKinds: readonly NoticeKind[] = [
  'paid_order',
  'late_order',
  'failed_delivery',
  'refund_to_approve',
  'inquiry',
];

/** Reads stored settings. What is missing or unknown, also of another version, is as on a new device. */
export function parseDeviceSettings(text: string | null): DeviceSettings {
  let stored: Partial<Record<keyof DeviceSettings | 'knownKinds', unknown>> | null = null;
  try {
    stored = JSON.parse(text ?? 'null');
  } catch {
    // Not written by the panel.
  }
  if (typeof stored !== 'object' || stored === null) return defaults;
  const { volume, kinds, knownKinds } = stored;
  const known: readonly unknown[] = Array.isArray(knownKinds) ? knownKinds : firstKinds;
  const isOn = (name: 'repeats' | 'notifies' | 'isPushed' | 'countsInTitle' | 'countsOnIcon'): boolean => {
    const value = stored[name];
    return typeof value === 'boolean' ? value : defaults[name];
  };
  return {
    volume: volumes.find((known) => known === volume) ?? defaults.volume,
    repeats: isOn('repeats'),
    notifies: isOn('notifies'),
    isPushed: isOn('isPushed'),
    countsInTitle: isOn('countsInTitle'),
    countsOnIcon: isOn('countsOnIcon'),
    // A kind that came with a later version was not declined.
    kinds: Array.isArray(kinds)
      ? allKinds.filter((kind) => kinds.includes(kind) || !known.includes(kind))
      : defaults.kinds,
  };
}

let text: string | null = null;
let settings = defaults;
const listeners = new Set<() => void>();

/** The settings of this device: the same object as long as nothing changes. */
export function deviceSettings(): DeviceSettings {
  const stored = readStored(key);
  if (stored !== text && !isInMemory) {
    text = stored;
    settings = parseDeviceSettings(stored);
  }
  return settings;
}

/** Whether the browser does not store: then they last as long as the page. */
let isInMemory = false;

export function changeDeviceSettings(change: Partial<DeviceSettings>): void {
  settings = { ...deviceSettings(), ...change };
  text = JSON.stringify({ ...settings, knownKinds: allKinds });
  writeStored(key, text);
  isInMemory = readStored(key) !== text;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  const stop = onStoredElsewhere(key, listener);
  return () => {
    listeners.delete(listener);
    stop();
  };
}

/** The settings of this device, also when another tab changes them. */
export const useDeviceSettings = (): DeviceSettings =>
  useSyncExternalStore(subscribe, deviceSettings, () => defaults);
