// The dialog that adds, edits or copies a product. Open while the URL has `?new=1`, `?edit=<id>` or `?copy=<id>`.
import { useQuery } from '@tanstack/react-query';
import { useCallback, useId } from 'react';
import { type Location, useSearchParams } from 'react-router';
import { Button } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { useDialogUrlClose } from '../dialogs/use-dialog-url-close.ts';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { useLastValue } from '../ui/use-last-value.ts';
import { type ProductDialogContent, ProductFormFields } from './product-form.tsx';
import { readProduct } from './product-queries.ts';

/** What the dialog shows. `id`: of the product that is edited, or copied. */
interface OpenProduct {
  kind: 'new' | 'edit' | 'copy';
  id: string;
}
const kinds = ['edit', 'copy', 'new'] as const;

function openProductOf(parameters: URLSearchParams): OpenProduct | null {
  const kind = kinds.find((name) => parameters.get(name));
  return kind ? { kind, id: parameters.get(kind) ?? '' } : null;
}

/** The URL of the same list with the dialog open, or closed for null. */
export function withProductDialog(parameters: URLSearchParams, opened: OpenProduct | null): URLSearchParams {
  const next = new URLSearchParams(parameters);
  for (const kind of kinds) next.delete(kind);
  if (opened) next.set(opened.kind, opened.id);
  return next;
}

const keyOf = (opened: OpenProduct | null): string => (opened ? `${opened.kind} ${opened.id}` : '');

/** Filters may change while a dialog is open. */
const isAnotherDialog = (from: Location, to: Location): boolean =>
  from.pathname !== to.pathname ||
  keyOf(openProductOf(new URLSearchParams(from.search))) !==
    keyOf(openProductOf(new URLSearchParams(to.search)));

export function ProductDialog() {
  const [parameters, setParameters] = useSearchParams();
  const opened = openProductOf(parameters);
  const shown = useLastValue(opened);

  const unsaved = useUnsaved(false, isAnotherDialog);

  const close = useDialogUrlClose(
    useCallback(
      () =>
        setParameters((before) => withProductDialog(before, null), {
          replace: true,
          preventScrollReset: true,
        }),
      [setParameters],
    ),
  );
  const content = {
    onClose: close,
    onChanges: unsaved.note,
    isLeaving: unsaved.isBlocked,
    onStay: unsaved.stay,
    onLeave: unsaved.leave,
  };
  return (
    <DialogOrDrawer size="large" hasOwnEntry={false} open={opened !== null} onClose={close}>
      <DialogHeading
        title={shown?.kind === 'edit' ? 'Edit Product' : 'Add New Product'}
        description="Fill in the product details below"
      />
      {shown?.kind === 'new' ? (
        <ProductFormFields key="new" product={null} {...content} />
      ) : shown ? (
        <ExistingProduct key={keyOf(shown)} {...shown} {...content} />
      ) : null}
    </DialogOrDrawer>
  );
}

function ExistingProduct({ kind, id, ...content }: ProductDialogContent & OpenProduct) {
  const { tables } = useMember().staff;
  // Loaded each time it opens, and never while it is open: the form's base version must not change.
  const opening = useId();
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ['opened product', id, opening],
    queryFn: () => readProduct(tables, id),
    staleTime: 'static',
    gcTime: 0,
  });
  if (data) {
    return kind === 'copy' ? (
      <ProductFormFields product={null} original={data} {...content} />
    ) : (
      <ProductFormFields product={data} {...content} />
    );
  }
  return (
    <>
      <DialogBody>
        {error ? (
          <Notice tone="danger" title="This product could not be loaded">
            Please check the connection and try again.
          </Notice>
        ) : data === null ? (
          <Notice tone="danger" title="There is no such product">
            It may have been deleted.
          </Notice>
        ) : (
          <div className="grid min-h-64 place-items-center">
            <Spinner label="Loading product..." />
          </div>
        )}
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          {error ? (
            <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
              Try again
            </Button>
          ) : null}
          <Button tone="quiet" onClick={content.onClose}>
            Close
          </Button>
        </div>
      </DialogFooter>
    </>
  );
}
