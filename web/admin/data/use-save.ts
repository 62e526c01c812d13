// A write of a staff screen: reports success or failure, and refetches the changed data.
import { type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef } from 'react';
import { showToast } from '../../ui/toasts/toasts.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { followLostWrite } from './follow-lost-write.ts';
import {
  ConflictError,
  isUnanswered,
  lostWriteOf,
  messageForUser,
  SavedWithoutAnswer,
} from './table-answer.ts';

/** Result of a write. Without `output` it was saved, but its answer was lost. */
interface Saved<Output> {
  output?: Output;
}

export interface Save<Input, Output> {
  /** Writes, or throws an error (as `dataOf` and `changedRow` do). */
  write(input: Input): Promise<Output>;
  /** Text of the success toast. Default: no toast, for callers with `onSuccess`. */
  success?: string | ((output: Output, input: Input) => string);
  /** Text of the failure toast if the error has none. */
  failure: string;
  /**
   * Whether repeating it could move money or send a message twice. Without a response it is not reported as failed.
   */
  isUnsafeToRepeat?: boolean;
  /** First parts of the query keys to refetch. */
  refresh: readonly string[];
  /** @param output undefined when the write was saved but its answer was lost */
  onSuccess?(output: Output | undefined, input: Input): void;
  /** Whether the screen shows the error itself, beside its cause: no toast. */
  isShownElsewhere?(error: Error): boolean;
}

const noAnswer = 'The connection broke, so this may have been saved. Check before you try again.';
const savedAnyway = 'Saved. The connection broke before the shop could say so.';

export function useSave<Input = void, Output = unknown>({
  write,
  success,
  failure,
  isUnsafeToRepeat = false,
  refresh,
  onSuccess,
  isShownElsewhere,
}: Save<Input, Output>): UseMutationResult<Saved<Output>, Error, Input> {
  const { staff } = useMember();
  const queries = useQueryClient();
  const refetch = () => Promise.all(refresh.map((word) => queries.invalidateQueries({ queryKey: [word] })));
  // Ignores a second press while the first write runs: a button is shown as busy only after the next render.
  const runningKeys = useRef(new Set<string>());
  const save = useMutation<Saved<Output>, Error, Input>({
    async mutationFn(input) {
      try {
        return { output: await write(input) };
      } catch (error) {
        if (error instanceof SavedWithoutAnswer) return {};
        throw error;
      } finally {
        runningKeys.current.delete(keyOf(input));
      }
    },
    onSuccess(saved, input) {
      const { output } = saved;
      const text =
        'output' in saved
          ? typeof success === 'function'
            ? success(saved.output as Output, input)
            : success
          : savedAnyway;
      // A newer one replaces it.
      if (text) showToast({ title: 'Success', text, topic: 'saved' });
      onSuccess?.(output, input);
      return refetch();
    },
    onError(error) {
      if (!isShownElsewhere?.(error)) {
        console.warn(failure, error);
        const hasNoAnswer = isUnsafeToRepeat && isUnanswered(error);
        showToast({
          kind: 'error',
          title:
            error instanceof ConflictError
              ? 'Someone else changed this'
              : hasNoAnswer
                ? 'No answer'
                : 'Error',
          text: hasNoAnswer ? noAnswer : messageForUser(error) || failure,
        });
      }
      const writeId = lostWriteOf(error);
      if (writeId) void followLostWrite(staff, writeId).then(refetch);
      // After a failure the current state is unknown: refetch without waiting, so that the member can retry.
      void refetch();
    },
  });
  const { mutate } = save;
  return {
    ...save,
    mutate: useCallback<typeof mutate>(
      (...parameters) => {
        const key = keyOf(parameters[0]);
        if (runningKeys.current.has(key)) return;
        runningKeys.current.add(key);
        mutate(...parameters);
      },
      [mutate],
    ),
  };
}

/** Requests for the same thing have the same key. */
const keyOf = (input: unknown): string => JSON.stringify(input) ?? '';
