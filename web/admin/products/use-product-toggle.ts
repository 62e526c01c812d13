// Activating and deactivating products where they are listed: shown at once, taken back when the database refuses it.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { showToast } from '../../ui/toasts.tsx';
import { ConflictError, changedRow, wordsOf } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import type { ListedProduct } from './product-queries.ts';

const failure = 'Failed to update product status';

export function useProductToggle() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  // Overrides the loaded value, so that a refusal needs no rollback.
  const [wanted, setWanted] = useState<ReadonlyMap<string, boolean>>(new Map());

  async function toggle({ id, name, is_active }: ListedProduct): Promise<void> {
    if (wanted.has(id)) return;
    setWanted((now) => new Map(now).set(id, !is_active));
    try {
      changedRow(
        await tables
          .from('products')
          .update({ is_active: !is_active })
          .eq('id', id)
          .eq('is_active', is_active)
          .select('id'),
        `Someone else has ${is_active ? 'deactivated' : 'activated'} or deleted ${name} in the meantime. You see how it is now.`,
      );
      showToast({ title: 'Success', text: 'Product status updated' });
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error('');
      console.warn(failure, error);
      showToast({
        kind: 'error',
        title: error instanceof ConflictError ? 'Someone else changed this' : 'Error',
        text: wordsOf(error) || failure,
      });
    }
    await Promise.all(
      ['products', 'dashboard'].map((word) => queries.invalidateQueries({ queryKey: [word] })),
    );
    setWanted((now) => {
      const rest = new Map(now);
      rest.delete(id);
      return rest;
    });
  }
  return {
    toggle,
    isToggling: (product: ListedProduct) => wanted.has(product.id),
    /** A product as it is wanted by now. */
    asWanted: (product: ListedProduct): ListedProduct => ({
      ...product,
      is_active: wanted.get(product.id) ?? product.is_active,
    }),
  };
}
