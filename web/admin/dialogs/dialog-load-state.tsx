// The content of a dialog without its row: loading, failed, or not found.
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, DialogHeading } from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import type { LoadingQuery } from '../ui/load-states.tsx';

interface DialogLoadStateProps {
  title: string;
  /** Noun for the row: 'delivery'. */
  noun: string;
  /** Null if the row does not exist. */
  row: null | undefined;
  /** The query that loads the row, unless the screen shows its error. */
  query?: LoadingQuery;
  /** What the user can do if loading fails. */
  advice?: string;
  onClose(): void;
}

export function DialogLoadState({
  title,
  noun,
  row,
  query,
  advice = 'Nothing was changed. Please check the connection and try again.',
  onClose,
}: DialogLoadStateProps) {
  return (
    <>
      <DialogHeading
        title={title}
        description={
          row === null
            ? `There is no such ${noun}. The address may be mistyped.`
            : query?.error
              ? 'It could not be loaded'
              : 'It is being loaded'
        }
      />
      <DialogBody>
        {query?.error ? (
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
          {query?.error ? (
            <Button tone="quiet" isBusy={query.isFetching} onClick={() => void query.refetch()}>
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
