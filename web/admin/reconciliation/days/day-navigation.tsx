// Links to the previous and next day, and to any day.
import { useId } from 'react';
import { Button } from '../../../ui/button.tsx';
import { dayAfter } from '../../ui/time/nairobi-day.ts';

interface DayNavigationProps {
  day: string;
  today: string;
  onGo(day: string): void;
}

export function DayNavigation({ day, today, onGo }: DayNavigationProps) {
  const id = useId();
  return (
    <div className="flex min-w-0 items-center gap-1.5 max-sm:flex-1 sm:gap-2">
      <Button
        tone="quiet"
        onClick={() => onGo(dayAfter(day, -1))}
        aria-label="The day before"
        className="px-3.5! sm:px-4!"
      >
        <span aria-hidden="true">‹</span>
      </Button>
      <label htmlFor={id} className="sr-only">
        Day
      </label>
      <input
        id={id}
        type="date"
        value={day}
        max={today}
        onChange={(event) => event.target.value && onGo(event.target.value)}
        className="min-h-11 min-w-0 rounded-md border border-line-strong bg-card px-2 text-sm max-sm:flex-1 sm:px-3 font-semibold text-ink"
      />
      <Button
        tone="quiet"
        onClick={() => onGo(dayAfter(day, 1))}
        disabled={day >= today}
        aria-label="The day after"
        className="px-3.5! sm:px-4!"
      >
        <span aria-hidden="true">›</span>
      </Button>
      <Button tone="quiet" onClick={() => onGo(today)} disabled={day === today} className="max-sm:px-3">
        Today
      </Button>
    </div>
  );
}
