// Activates and deactivates products in the list: optimistic, reverted if the database refuses it.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { ConflictError, changedRow, messageForUser, SavedWithoutAnswer } from '../data/table-answer.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { ListedProduct } from './product-queries.ts';

const failure = 'Failed to update product status';

export function useProductToggle() {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  // Overrides the loaded value, so that a refusal needs no rollback.
  const [pending, setPending] = useState<ReadonlyMap<string, boolean>>(new Map());

  async function toggle({ id, name, is_active }: ListedProduct): Promise<void> {
    if (pending.has(id)) return;
    setPending((now) => new Map(now).set(id, !is_active));
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
      if (error instanceof SavedWithoutAnswer) {
        showToast({ title: 'Success', text: 'Product status updated' });
      } else {
        console.warn(failure, error);
        showToast({
          kind: 'error',
          title: error instanceof ConflictError ? 'Someone else changed this' : 'Error',
          text: messageForUser(error) || failure,
        });
      }
    }
    try {
      await Promise.all(
        ['products', 'dashboard'].map((word) => queries.invalidateQueries({ queryKey: [word] })),
      );
    } finally {
      setPending((now) => {
        const rest = new Map(now);
        rest.delete(id);
        return rest;
      });
    }
  }
  return {
    toggle,
    isToggling: (product: ListedProduct) => pending.has(product.id),
    /** A product with its optimistic state. */
    withPendingToggle: (product: ListedProduct): ListedProduct => ({
      ...product,
      is_active: pending.get(product.id) ?? product.is_active,
    }),
  };
}
