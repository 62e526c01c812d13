// "Use my location": asks the device for its position after a tap, for staff and the rider.
import { useState } from 'react';
import { Icon } from '../../../ui/icons.tsx';

interface MapPointProps {
  /** Latitude and longitude; '' for none. */
  point: string;
  isDisabled: boolean;
  onChange(point: string): void;
}

/** How long the device may take, in ms. */
const timeout = 15_000;

const problems: Readonly<Record<number, string>> = {
  1: "Your browser doesn't share your location. Your address is enough.",
  3: "Your device didn't find its location in time. Try again, or leave it out.",
};

export function MapPoint({ point, isDisabled, onChange }: MapPointProps) {
  const [state, setState] = useState<'idle' | 'asking' | { problem: string }>('idle');
  if (typeof navigator === 'undefined' || !('geolocation' in navigator)) return null;

  function ask() {
    setState('asking');
    navigator.geolocation.getCurrentPosition(
      ({ coords: { latitude, longitude } }) => {
        setState('idle');
        onChange(`${latitude.toFixed(5)},${longitude.toFixed(5)}`);
      },
      ({ code }) =>
        setState({
          problem: problems[code] ?? 'Your device cannot find its location. Your address is enough.',
        }),
      { enableHighAccuracy: true, timeout, maximumAge: 60_000 },
    );
  }

  return (
    <div className="-my-1.5 text-sm">
      {point ? (
        <p role="status" className="flex flex-wrap items-center gap-x-3">
          <span className="inline-flex items-center gap-1.5">
            <Icon name="check" className="size-4 text-success" />
            Our rider gets your place on the map.
          </span>
          <button
            type="button"
            disabled={isDisabled}
            onClick={() => onChange('')}
            className="-mx-2 min-h-11 rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2"
          >
            Remove
          </button>
        </p>
      ) : (
        <button
          type="button"
          disabled={isDisabled || state === 'asking'}
          onClick={ask}
          className="-mx-2 inline-flex min-h-11 items-center gap-2 rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800"
        >
          <Icon name="pin" className={`size-4 ${state === 'asking' ? 'motion-safe:animate-pulse' : ''}`} />
          {state === 'asking' ? 'Finding you…' : 'Use my location'}
        </button>
      )}
      <p role="status" className="text-ink-soft empty:hidden">
        {typeof state === 'object' && !point ? state.problem : null}
      </p>
    </div>
  );
}
