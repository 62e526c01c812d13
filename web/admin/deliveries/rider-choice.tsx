// The riders of the list, and those who were typed in the last 60 days: one press chooses one, with phone and vehicle.
import { type Rider, useRecentRiders } from './rider-queries.ts';

interface RiderChoiceProps {
  isChosen(rider: Rider): boolean;
  isDisabled?: boolean;
  onChoose(rider: Rider): void;
}

export function RiderChoice({ isChosen, isDisabled = false, onChoose }: RiderChoiceProps) {
  const riders = useRecentRiders();
  if (!riders || riders.length === 0) return null;
  return (
    <fieldset disabled={isDisabled} className="grid gap-2">
      <legend className="mb-1.5 text-sm font-semibold">Riders</legend>
      <div className="flex max-h-40 flex-wrap gap-2 overflow-y-auto p-1 -m-1">
        {riders.map((rider) => (
          <button
            key={rider.name}
            type="button"
            aria-pressed={isChosen(rider)}
            onClick={() => onChoose(rider)}
            className="grid min-h-11 max-w-full rounded-md border border-line-strong bg-card px-3 py-1 text-left text-sm transition-colors hover:border-dusk-500 aria-pressed:border-leaf-600 aria-pressed:bg-leaf-50 aria-pressed:shadow-[inset_0_0_0_1px] aria-pressed:shadow-leaf-600"
          >
            <span className="truncate font-semibold">{rider.name}</span>
            <span className="truncate text-xs text-ink-soft">
              {[rider.vehicle, rider.open_deliveries > 0 ? `${rider.open_deliveries} to deliver` : 'free now']
                .filter(Boolean)
                .join(' · ')}
            </span>
          </button>
        ))}
      </div>
    </fieldset>
  );
}
