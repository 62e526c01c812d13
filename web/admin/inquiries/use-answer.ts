// Answers an inquiry, and offers to undo it until the reply leaves.
import { useQueryClient } from '@tanstack/react-query';
import { plainText } from '../../../domain/messages/text-message.ts';
import type { InquiryAnswerWay } from '../../../supabase/types.ts';
import { ConflictError, dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { type Outcome, outcomeOf } from '../undo/outcome.ts';
import { offerUndo } from '../undo/undoable-changes.ts';
import { changeOf } from '../undo/use-status-change.ts';
import type { Inquiry } from './inquiry-queries.ts';
import { type ReplyDraft, useRestoreDraft } from './use-reply-draft.ts';

export const wayLabels: Record<InquiryAnswerWay, string> = {
  mail: 'Email',
  text: 'SMS',
  elsewhere: 'Answered elsewhere',
};

/** What is sent: texts in the alphabet of simple phones, where that only loses accents. */
export const sentBody = ({ body }: Pick<ReplyDraft, 'body'>, way: InquiryAnswerWay): string =>
  way === 'text' ? plainText(body.trim()) : body.trim();

/** `Email and SMS`, for a title. */
export const titleOfWays = (ways: readonly InquiryAnswerWay[]): string =>
  ways.map((way) => wayLabels[way]).join(' and ');

const refreshed = ['inquiries', 'messages', 'dashboard'];

/** @param onAnswered called once it is saved */
export function useAnswer(onAnswered: () => void) {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  const restore = useRestoreDraft();

  async function undo(answerId: string, inquiry: Inquiry, draft: ReplyDraft): Promise<Outcome> {
    const outcome = await outcomeOf(
      async () => dataOf(await tables.rpc('withdraw_answer', { answer_id: answerId })),
      {
        undone: `Nothing was sent to ${inquiry.name}. Your reply is still in the form.`,
        unanswered: 'The connection broke. Look at the inquiry again.',
        subject: 'the inquiry',
      },
    );
    for (const word of refreshed) void queries.invalidateQueries({ queryKey: [word] });
    if (outcome.title === 'Undone') restore(inquiry.id, draft);
    return outcome;
  }

  return useSave({
    async write({ inquiry, draft }: { inquiry: Inquiry; draft: ReplyDraft }) {
      const startedAt = performance.now();
      const [way = 'mail', also] = draft.ways;
      const answer = await tables.rpc('answer_inquiry', {
        inquiry_id: inquiry.id,
        way,
        body: sentBody(draft, way),
        seen_answered_at: draft.seenAnsweredAt,
        ...(way === 'mail' ? { subject: draft.subject } : {}),
        ...(also ? { text_body: sentBody(draft, also) } : {}),
      });
      if (answer.error?.details === 'inquiry_answered') throw new ConflictError(answer.error.message);
      return { change: changeOf(answer), startedAt };
    },
    failure: 'Failed to save the answer',
    isUnsafeToRepeat: true,
    refresh: refreshed,
    // The form shows the other member's answer.
    isShownElsewhere: (error) => error instanceof ConflictError,
    onSuccess(saved, { inquiry, draft }) {
      onAnswered();
      if (!saved) return;
      const { change, startedAt } = saved;
      offerUndo(
        {
          id: change.change_id,
          title: `${inquiry.name}: ${titleOfWays(draft.ways)}`,
          notifiesCustomer: change.notifies_customer,
          orderId: inquiry.id,
          isOvertakenBy: ({ table, row }) =>
            table === 'outbox_messages' && row.id === change.change_id && row.status !== 'waiting',
          endsAt: startedAt + change.undo_seconds * 1000,
          undo: () => undo(change.change_id, inquiry, draft),
        },
        draft.ways.includes('elsewhere') ? 'Marked as answered' : 'The reply is on its way',
      );
    },
  });
}
