// What a member has typed as a reply to an inquiry. It outlives the dialog, so that closing it, or undoing the reply, loses nothing.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { InquiryAnswerWay } from '../../../supabase/types.ts';
import type { Inquiry } from './inquiry-queries.ts';

export interface ReplyDraft {
  /** Mail, text or both, or elsewhere alone. */
  ways: readonly InquiryAnswerWay[];
  subject: string;
  body: string;
  /** `answered_at` of the inquiry as the member last saw it. */
  seenAnsweredAt: string | null;
}

const draftKey = (inquiryId: string) => ['drafts', 'reply', inquiryId];

export const newDraft = ({ subject, answered_at }: Inquiry): ReplyDraft => ({
  ways: ['mail'],
  subject: subject?.trim() ? `Re: ${subject.trim()}` : 'Your message to us',
  body: '',
  seenAnsweredAt: answered_at,
});

/** Puts a reply back into the form of its inquiry. */
export function useRestoreDraft(): (inquiryId: string, draft: ReplyDraft) => void {
  const queries = useQueryClient();
  return (inquiryId, draft) => queries.setQueryData(draftKey(inquiryId), draft);
}

/** The draft of an inquiry; null while the member writes none. */
export function useReplyDraft(inquiryId: string): [ReplyDraft | null, (draft: ReplyDraft | null) => void] {
  const queries = useQueryClient();
  const key = draftKey(inquiryId);
  // Never read from the shop: written by `setQueryData` only.
  const { data } = useQuery<ReplyDraft | null>({
    queryKey: key,
    queryFn: () => null,
    enabled: false,
    gcTime: Number.POSITIVE_INFINITY,
  });
  return [data ?? null, (draft) => queries.setQueryData(key, draft)];
}
