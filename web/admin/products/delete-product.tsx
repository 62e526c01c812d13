// Confirms the deletion of a product, and shows what happens to its orders.
import { useQuery } from '@tanstack/react-query';
import { formatCount } from '../../../domain/count.ts';
import { Button } from '../../ui/button.tsx';
import { Notice } from '../../ui/notice.tsx';
import { changedRow, dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { removeUnusedImages } from './images/product-image-storage.ts';
import { imagesOf, type ListedProduct, type ProductImages } from './product-queries.ts';

interface DeleteProductProps {
  product: ListedProduct;
  open: boolean;
  onClose(): void;
  onDeactivate(product: ListedProduct): void;
}

export function DeleteProduct({ product, open, onClose, onDeactivate }: DeleteProductProps) {
  const { staff } = useMember();
  const { data: found, isError } = useQuery({
    queryKey: ['products', 'orders of', product.id],
    queryFn: async () =>
      dataOf(await staff.tables.rpc('count_product_orders', { product_id: product.id }, { get: true }))[0],
    enabled: open,
    staleTime: 0,
  });
  const remove = useSave<void, ProductImages>({
    write: async () =>
      changedRow(
        await staff.tables
          .from('products')
          .delete()
          .eq('id', product.id)
          .eq('updated_at', product.updated_at)
          .select('image_url, more_images'),
        'Someone else changed or deleted this product in the meantime. Look at it as it is now before you delete it.',
      ),
    success: 'Product deleted successfully',
    failure: 'Failed to delete product',
    refresh: ['products', 'categories', 'dashboard'],
    onSuccess: (deleted) => void removeUnusedImages(staff, deleted ? imagesOf(deleted) : [product.image_url]),
  });
  return (
    <ConfirmDialog
      open={open}
      title={`Delete ${product.name}?`}
      text="It is gone from the shop at once, and this cannot be undone."
      confirm="Delete Product"
      isBusy={remove.isPending}
      alternative={
        product.is_active ? (
          <Button
            tone="outline"
            disabled={remove.isPending}
            onClick={() => {
              onClose();
              onDeactivate(product);
            }}
          >
            Deactivate instead
          </Button>
        ) : null
      }
      onConfirm={() => remove.mutate(undefined, { onSettled: onClose })}
      onCancel={onClose}
    >
      {isError ? (
        <Notice tone="info" title="Whether orders contain it could not be found out">
          If there are any, they keep its name and price.
        </Notice>
      ) : !found ? (
        <p role="status" className="text-sm text-ink-soft">
          Looking for orders that contain it...
        </p>
      ) : found.orders === 0 ? (
        <p role="status" className="text-sm text-ink-soft">
          No order contains it.
        </p>
      ) : (
        <Notice tone="info" title={inOrders(found.orders)}>
          {found.unpaid > 0 ? waiting(found) : 'Nothing changes for them.'}
          {product.is_active ? ' If you only want it out of the shop for now, deactivate it instead.' : ''}
        </Notice>
      )}
    </ConfirmDialog>
  );
}

function inOrders(orders: number): string {
  return orders === 1
    ? '1 order contains it; it keeps its name and price'
    : `${formatCount(orders)} orders contain it; they keep its name and price`;
}

function waiting({ orders, unpaid }: { orders: number; unpaid: number }): string {
  if (orders === 1) return 'It is not paid yet: its units stay set aside for it.';
  if (unpaid === orders) return 'None of them is paid yet: their units stay set aside for them.';
  return unpaid === 1
    ? 'One of them is not paid yet: its units stay set aside for it.'
    : `${formatCount(unpaid)} of them are not paid yet: their units stay set aside for them.`;
}
