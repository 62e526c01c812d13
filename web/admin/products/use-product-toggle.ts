// Activating and deactivating a product where it is listed: shown at once, taken back when the database refuses it.
import { type InfiniteData, useMutation, useQueryClient } from '@tanstack/react-query';
import { showToast } from '../../ui/toasts.tsx';
import { ChangedMeanwhile, changedRow, wordsOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import type { ListedProduct } from './product-queries.ts';

type Toggled = Pick<ListedProduct, 'id' | 'name' | 'is_active'>;
const failure = 'Failed to update product status';

export function useProductToggle() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  const show = (id: string, is_active: boolean) =>
    queries.setQueriesData<InfiniteData<ListedProduct[]>>(
      { queryKey: ['products', 'list'] },
      (data) =>
        data && {
          ...data,
          pages: data.pages.map((page) => page.map((row) => (row.id === id ? { ...row, is_active } : row))),
        },
    );

  return useMutation<unknown, Error, Toggled>({
    async mutationFn({ id, is_active, name }) {
      const answer = await tables
        .from('products')
        .update({ is_active: !is_active })
        .eq('id', id)
        .eq('is_active', is_active)
        .select('id');
      return changedRow(
        answer,
        `Somebody else has ${is_active ? 'deactivated' : 'activated'} or deleted ${name} in the meantime. You see how it is now.`,
      );
    },
    async onMutate({ id, is_active }) {
      // A refresh under way would bring the old state back.
      await queries.cancelQueries({ queryKey: ['products', 'list'] });
      show(id, !is_active);
    },
    onSuccess: () => showToast({ title: 'Success', text: 'Product status updated' }),
    onError(error, { id, is_active }) {
      console.warn(failure, error);
      show(id, is_active);
      showToast({
        kind: 'error',
        title: error instanceof ChangedMeanwhile ? 'Changed meanwhile' : 'Error',
        text: wordsOf(error) || failure,
      });
    },
    onSettled: () =>
      Promise.all(['products', 'dashboard'].map((word) => queries.invalidateQueries({ queryKey: [word] }))),
  });
}
