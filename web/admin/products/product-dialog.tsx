// The dialog in which a product is added or edited. It is open while the address says so: `?new=1` or `?edit=<id>`.
import { useQuery } from '@tanstack/react-query';
import { useCallback, useId, useRef } from 'react';
import { type Location, useSearchParams } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { useAddressDialogClose } from '../../ui/dialog-history.ts';
import { DialogBody, DialogFooter, DialogHeading, DialogOrDrawer } from '../../ui/dialog-or-drawer.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { useMember } from '../use-member.tsx';
import { useUnsaved } from '../use-unsaved.ts';
import { type ProductDialogContent, ProductFormFields } from './product-form.tsx';
import { readProduct } from './product-queries.ts';

/** What the address asks for: a product's id, 'new', or nothing. */
function wantedBy(parameters: URLSearchParams): string | null {
  return parameters.get('edit') || (parameters.has('new') ? 'new' : null);
}

/** The address of the same list with the dialog open, or closed for null. */
export function withProductDialog(parameters: URLSearchParams, wanted: string | null): URLSearchParams {
  const next = new URLSearchParams(parameters);
  next.delete('new');
  next.delete('edit');
  if (wanted === 'new') next.set('new', '1');
  else if (wanted) next.set('edit', wanted);
  return next;
}

/** Filters may change beside an open dialog. */
const isAnotherDialog = (from: Location, to: Location): boolean =>
  from.pathname !== to.pathname ||
  wantedBy(new URLSearchParams(from.search)) !== wantedBy(new URLSearchParams(to.search));

export function ProductDialog() {
  const [parameters, setParameters] = useSearchParams();
  const wanted = wantedBy(parameters);
  // While it closes it shows what it showed.
  const shown = useRef(wanted);
  if (wanted) shown.current = wanted;

  const unsaved = useUnsaved(false, isAnotherDialog);

  const close = useAddressDialogClose(
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
    isLeaving: unsaved.isAsked,
    onStay: unsaved.stay,
    onLeave: unsaved.leave,
  };
  return (
    <DialogOrDrawer
      size="large"
      hasOwnEntry={false}
      open={wanted !== null}
      onOpenChange={(isOpen) => isOpen || close()}
    >
      <DialogHeading
        title={shown.current === 'new' ? 'Add New Product' : 'Edit Product'}
        description="Fill in the product details below"
      />
      {shown.current === 'new' ? (
        <ProductFormFields key="new" product={null} {...content} />
      ) : shown.current ? (
        <ExistingProduct key={shown.current} id={shown.current} {...content} />
      ) : null}
    </DialogOrDrawer>
  );
}

function ExistingProduct({ id, ...content }: ProductDialogContent & { id: string }) {
  const { tables } = useMember().staff;
  // Read anew each time it opens, and never while it is open: what the member saw must not change under the form.
  const opening = useId();
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ['opened product', id, opening],
    queryFn: () => readProduct(tables, id),
    staleTime: 'static',
    gcTime: 0,
  });
  if (data) return <ProductFormFields product={data} {...content} />;
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
