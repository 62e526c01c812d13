// Marks one or all inquiries as read. This cannot be undone, so only inquiries that were listed are marked.
import { ShownError } from '../../lib/shown-error.ts';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import type { Inquiry, Unread } from './inquiry-queries.ts';

const touched = ['inquiries', 'dashboard'];

export function useMarkRead() {
  const { tables } = useMember().staff;
  const save = useSave({
    async write({ id }: Inquiry) {
      const outcome = dataOf(await tables.rpc('mark_inquiry_read', { inquiry_id: id }));
      if (outcome === 'not_found') throw new ShownError('This inquiry does not exist any more');
      return outcome;
    },
    success: (outcome) =>
      outcome === 'already_read'
        ? 'Someone else has marked this inquiry as read already'
        : 'Inquiry marked as read',
    failure: 'Failed to mark inquiry as read',
    refresh: touched,
  });
  return {
    mark: (inquiry: Inquiry) => save.mutate(inquiry),
    isMarking: ({ id }: Inquiry) => save.isPending && save.variables.id === id,
  };
}

export function useMarkAllRead() {
  const { tables } = useMember().staff;
  return useSave({
    write: async ({ until }: Unread) =>
      dataOf(await tables.rpc('mark_all_inquiries_read', { seen_until: until })),
    success: 'All inquiries marked as read',
    failure: 'Failed to mark all inquiries as read',
    refresh: touched,
  });
}
