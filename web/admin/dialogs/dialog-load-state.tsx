// The content of a dialog without its row: loading, failed, or not found.
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';

interface DialogLoadStateProps {
  title: string;
  /** Noun for the row: 'delivery'. */
  noun: string;
  /** Null if the row does not exist. */
  row: null | undefined;
  error: Error | null;
  /** What the user can do if loading fails. */
  advice: string;
  isFetching: boolean;
  onRetry(): void;
  onClose(): void;
}

export function DialogLoadState({
  title,
  noun,
  row,
  error,
  advice,
  isFetching,
  onRetry,
  onClose,
}: DialogLoadStateProps) {
  return (
    <>
      <DialogHeading
        title={title}
        description={
          row === null
            ? `There is no such ${noun}. The address may be mistyped.`
            : error
              ? 'It could not be loaded'
              : 'It is being loaded'
        }
      />
      <DialogBody>
        {error ? (
          <Notice tone="danger" title={`This ${noun} could not be loaded`}>
            {advice}
          </Notice>
        ) : row === undefined ? (
          <div className="grid min-h-64 place-items-center">
            <Spinner label={`Loading ${noun}...`} />
          </div>
        ) : null}
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          {error ? (
            <Button tone="quiet" isBusy={isFetching} onClick={onRetry}>
              Try again
            </Button>
          ) : null}
          <Button tone="quiet" onClick={onClose}>
            Close
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}
