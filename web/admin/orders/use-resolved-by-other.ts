// Shows a toast when an open form closes because another member has resolved its order first.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { ConflictError, isUnanswered } from '../data/table-answer.ts';
import { orderKey, type WholeOrder } from './whole-order.ts';

/** Whether the new state may result from the form's own save. */
export const isSettling = ({ isPending, error }: { isPending: boolean; error: Error | null }): boolean =>
  isPending || (error !== null && isUnanswered(error));

interface OpenForm {
  orderId: string;
  /** Whether the form is open and not saving. */
  isOpen: boolean;
  /** Whether the order still allows what the form does. */
  isOffered(order: WholeOrder): boolean;
}

export function useResolvedByOther(form: OpenForm): void {
  const queries = useQueryClient();
  const last = useRef(form);
  useEffect(() => {
    last.current = form;
  });
  useEffect(
    () => () => {
      const { orderId, isOpen, isOffered } = last.current;
      // Nothing is cached once the session has ended.
      const order = isOpen && queries.getQueryData<WholeOrder>(orderKey(orderId));
      if (!order || isOffered(order)) return;
      showToast({
        kind: 'error',
        title: 'Someone else changed this',
        text: new ConflictError().message,
      });
    },
    [queries],
  );
}
