// Queries and changes of the messages screens, with their keys.
import { useQuery } from '@tanstack/react-query';
import { formatCount } from '../../../domain/count.ts';
import type { Database, OutboxMessageChannel, OutboxMessageStatus } from '../../../supabase/types.ts';
import type { Staff } from '../../lib/staff.ts';
import { changedRow, dataOf, rowOrNull } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { isUuid } from '../dialogs/uuid.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { type ReadPage, useRows } from '../list/use-rows.ts';

export type Message = Database['public']['Tables']['outbox_messages']['Row'];
export type Template = Database['public']['Tables']['message_templates']['Row'];

/** '' without a filter. */
export interface MessageFilters {
  search: string;
  status: OutboxMessageStatus | '';
  channel: OutboxMessageChannel | '';
  /** A column's key, with '-' before it for the opposite direction; '' for newest first. */
  sort: string;
}

/** Searches anywhere in customer, recipient, order and tracking number. */
export function readMessages(tables: Staff['tables'], { search, status, channel, sort }: MessageFilters) {
  return (({ after, limit, signal }) =>
    tables
      .rpc('search_messages', {
        search,
        status: status || null,
        channel: channel || null,
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
        sort: sort || null,
      })
      .select('*')
      .abortSignal(signal)) satisfies ReadPage<Message>;
}

export function useMessages(filters: MessageFilters) {
  const { tables } = useMember().staff;
  return useRows<Message>(['messages', 'list', filters], readMessages(tables, filters));
}

/** One message; null when there is none. */
export function useMessage(id: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'one', id],
    queryFn: async ({ signal }) =>
      isUuid(id)
        ? rowOrNull(
            await tables.from('outbox_messages').select('*').eq('id', id).abortSignal(signal).maybeSingle(),
          )
        : null,
  });
}

/** All messages of an order. */
export function useMessagesOf(orderId: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'of order', orderId],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('outbox_messages')
          .select(
            'id, kind, event_key, channel, status, recipient, problem, resent_by, created_at, sent_at, updated_at',
          )
          .eq('order_id', orderId)
          // Messages that wait for their first attempt are sent in a moment.
          .or('status.in.(sent,failed,unsure,over_budget),problem.not.is.null')
          .order('created_at')
          .abortSignal(signal),
      ),
    staleTime: 0,
  });
}

/** Messages sent today and the daily budget, per channel, texts first. */
export function useMessageBudgets() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'budgets'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('message_budgets').order('channel', { ascending: false }).abortSignal(signal)),
    staleTime: 0,
    // Polled, because a new day begins without a change in any table.
    refetchInterval: 60_000,
  });
}
export function useSendAgain() {
  const { tables } = useMember().staff;
  const save = useSave({
    write: async ({ id }: Message) => dataOf(await tables.rpc('send_message_again', { message_id: id })),
    success: 'The message is on its way',
    failure: 'Failed to send the message',
    isUnsafeToRepeat: true,
    refresh: ['messages'],
  });
  return {
    send: (message: Message) => save.mutate(message),
    isSending: ({ id }: Message) => save.isPending && save.variables.id === id,
  };
}

/** Whether a sent message can be sent once more, and whether what it says is still true. */
export function useRepeatCheck(id: string, isAsked: boolean) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'repeat check', id],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('check_repeat', { message_id: id }).abortSignal(signal))[0] ?? null,
    enabled: isAsked,
    staleTime: 0,
  });
}

/** The messages that repeat one, the first one first. */
export function useRepetitions(firstId: string) {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['messages', 'repetitions', firstId],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('outbox_messages')
          .select('id, status, resent_by, created_at')
          .eq('repeat_of', firstId)
          .order('created_at')
          .abortSignal(signal),
      ),
  }).data;
}

/** @param onSent called once it is queued */
export function useRepeat(onSent: () => void) {
  const { tables } = useMember().staff;
  return useSave({
    write: async ({ id }: Message) => dataOf(await tables.rpc('repeat_message', { message_id: id })),
    success: 'The message is on its way again',
    failure: 'Failed to send the message',
    isUnsafeToRepeat: true,
    refresh: ['messages'],
    onSuccess: onSent,
  });
}

/** Sends all withheld messages, as far as today's budgets allow; the input is a channel, or '' for both. */
export function useSendWithheld() {
  const { tables } = useMember().staff;
  return useSave({
    write: async (channel: MessageFilters['channel']) =>
      dataOf(await tables.rpc('send_withheld_messages', { channel: channel || null })) as {
        sent: number;
        withheld: number;
      },
    success: ({ sent, withheld }) =>
      `${sent === 1 ? 'One message is' : `${formatCount(sent)} messages are`} on the way${
        withheld > 0 ? `. Today's budget does not allow the other ${formatCount(withheld)}` : ''
      }`,
    failure: 'Failed to send the messages',
    isUnsafeToRepeat: true,
    refresh: ['messages'],
  });
}

export function useTemplates() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['templates', 'all'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.from('message_templates').select('*').abortSignal(signal)),
  });
}

export interface TemplateForm {
  subject: string;
  body: string;
  isOn: boolean;
}

export const formOf = ({ subject, body, is_on }: Template): TemplateForm => ({
  subject: subject ?? '',
  body,
  isOn: is_on,
});

/** @throws ConflictError if it has changed since it was seen */
export const writeTemplate = async (tables: Staff['tables'], form: TemplateForm, seen: Template) =>
  changedRow(
    await tables
      .from('message_templates')
      .update({
        subject: seen.channel === 'mail' ? form.subject : null,
        body: form.body,
        is_on: form.isOn,
      })
      .eq('id', seen.id)
      .eq('updated_at', seen.updated_at)
      .select('*'),
  );
