// Placeholders for data that is loading or could not be loaded.
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';

interface LoadStateProps {
  /** Plural noun for the data: 'settings'. */
  noun: string;
  error: boolean;
  onRetry(): void;
}

/** A query of TanStack Query. */
export interface LoadingQuery {
  error: Error | null;
  isFetching: boolean;
  refetch(): unknown;
}

/** Replaces a whole screen. */
export function ScreenLoadState({ noun, queries }: { noun: string; queries: LoadingQuery[] }) {
  return queries.some(({ error }) => error) ? (
    <div role="alert" className="grid justify-items-start gap-3">
      <p className="font-display text-xl font-bold">The {noun} could not be loaded</p>
      <p className="text-ink-soft">Nothing was changed. Please check the connection and try again.</p>
      <Button
        tone="quiet"
        isBusy={queries.some(({ isFetching }) => isFetching)}
        onClick={() => queries.forEach(({ refetch }) => void refetch())}
      >
        Try again
      </Button>
    </div>
  ) : (
    <div className="grid min-h-64 place-items-center">
      <Spinner label={`Loading ${noun}...`} />
    </div>
  );
}

/** Replaces a list within a dialog. */
export function DialogListLoadState({ noun, error, onRetry }: LoadStateProps) {
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

/** Above rows that are still shown although they could not be read again. */
export function RefreshFailed({ isReading, retry }: { isReading: boolean; retry(): void }) {
  return (
    <p role="alert" className="flex flex-wrap items-center gap-3 text-sm text-danger">
      <span className="font-semibold">What you see may be out of date: the last refresh failed.</span>
      <Button tone="quiet" isBusy={isReading} onClick={retry}>
        Try again
      </Button>
    </p>
  );
}
