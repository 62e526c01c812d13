// Placeholders for data that is loading or could not be loaded.
import { Button } from '../ui/button.tsx';
import { Notice } from '../ui/notice.tsx';
import { Spinner } from '../ui/spinner.tsx';

interface WithoutDataProps {
  /** What is loaded, in the plural: 'settings'. */
  noun: string;
  error: boolean;
  onRetry(): void;
}

/** In the place of a whole screen. */
export function ScreenWithoutData({
  noun,
  error,
  isFetching,
  onRetry,
}: WithoutDataProps & { isFetching: boolean }) {
  return error ? (
    <div role="alert" className="grid justify-items-start gap-3">
      <p className="font-display text-xl font-bold">The {noun} could not be loaded</p>
      <p className="text-ink-soft">Nothing was changed. Please check the connection and try again.</p>
      <Button tone="quiet" isBusy={isFetching} onClick={onRetry}>
        Try again
      </Button>
    </div>
  ) : (
    <div className="grid min-h-64 place-items-center">
      <Spinner label={`Loading ${noun}...`} />
    </div>
  );
}

/** In the place of a list within a dialog. */
export function DialogListWithoutData({ noun, error, onRetry }: WithoutDataProps) {
  return error ? (
    <div className="grid gap-3">
      <Notice tone="danger" title={`The ${noun} could not be loaded`}>
        Please check the connection and try again.
      </Notice>
      <Button tone="quiet" onClick={onRetry} className="justify-self-start">
        Try again
      </Button>
    </div>
  ) : (
    <div className="grid min-h-48 place-items-center">
      <Spinner label={`Loading ${noun}...`} />
    </div>
  );
}
