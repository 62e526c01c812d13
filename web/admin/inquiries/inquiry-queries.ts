// Queries of the inquiries screen and their keys.
import { useQuery } from '@tanstack/react-query';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, rowOrNull } from '../data/table-answer.ts';
import { isUuid } from '../dialogs/uuid.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { type ReadPage, useRows } from '../list/use-rows.ts';

export interface InquiryFilters {
  /** Anywhere in name, e-mail and subject. */
  search: string;
  /** 'unread', or '' for all. */
  status: string;
  /** A column's key, with '-' before it for the opposite direction; '' for newest first, unread ones oldest first. */
  sort: string;
}

export function readInquiries(tables: Staff['tables'], { search, status, sort }: InquiryFilters) {
  return (({ after, limit, signal }) =>
    tables
      .rpc('search_inquiries', {
        search,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
        unread: status === 'unread',
        sort: sort || null,
      })
      .select('*')
      .abortSignal(signal)) satisfies ReadPage<{ id: string; created_at: string }>;
}
type Answer = Awaited<ReturnType<ReturnType<typeof readInquiries>>>;
export type Inquiry = NonNullable<Answer['data']>[number];

export function useInquiries(filters: InquiryFilters) {
  const { tables } = useMember().staff;
  return useRows<Inquiry>(['inquiries', 'list', filters], readInquiries(tables, filters));
}

/** One inquiry; null when there is none. */
export function useInquiry(id: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['inquiries', 'one', id],
    queryFn: async ({ signal }) => {
      if (!isUuid(id)) return null;
      const answer = await tables
        .from('inquiries')
        .select('*')
        .eq('id', id)
        .abortSignal(signal)
        .maybeSingle();
      return rowOrNull(answer);
    },
  });
}

/** The answers to an inquiry, the first one first. */
export function useAnswers(inquiryId: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['inquiries', 'answers', inquiryId],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('inquiry_answers')
          .select('*')
          .eq('inquiry_id', inquiryId)
          .order('answered_at')
          .abortSignal(signal),
      ),
  });
}
export type InquiryAnswer = NonNullable<ReturnType<typeof useAnswers>['data']>[number];

/** The messages of an inquiry's answers, and their repetitions. */
export function useAnswerMessages(inquiryId: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'of inquiry', inquiryId],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('outbox_messages')
          .select('id, channel, status, problem, repeat_of, resent_by, created_at')
          .eq('kind', 'inquiry_reply')
          .eq('event_key', inquiryId)
          .order('created_at')
          .abortSignal(signal),
      ),
  });
}
export type AnswerMessage = NonNullable<ReturnType<typeof useAnswerMessages>['data']>[number];

export function useReplyTemplates() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['templates', 'replies'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.from('reply_templates').select('*').order('title').abortSignal(signal)),
  });
}
export type ReplyTemplate = NonNullable<ReturnType<typeof useReplyTemplates>['data']>[number];

export interface Unread {
  count: number;
  /** Time of the newest counted inquiry. */
  until: string | null;
}

/** The number of unread inquiries, independent of the search; undefined until counted. */
export function useUnread(): Unread | undefined {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['inquiries', 'unread', 'newest'],
    queryFn: async ({ signal }): Promise<Unread> => {
      const answer = await tables
        .from('inquiries')
        .select('created_at', { count: 'exact' })
        .is('is_read', false)
        .order('created_at', { ascending: false })
        .limit(1)
        .abortSignal(signal);
      return { until: dataOf(answer)[0]?.created_at ?? null, count: answer.count ?? 0 };
    },
  }).data;
}
