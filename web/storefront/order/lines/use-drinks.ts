// The drinks that a picker shows: suggestions, or matches of the typed text.
import { useEffect, useState } from 'react';
import { createStore } from '../../../../supabase/store.ts';
import { orderedDrinks, rememberedOrders } from '../../../lib/orders/remembered-orders.ts';
import { useShop } from '../../layout/use-shop.ts';
import { type DrinkGroup, searchDrinks, suggestDrinks } from './find-drinks.ts';
import type { OrderLine } from './order-lines.ts';

const typingPauseMs = 180;
const minLength = 2;
const timeoutMs = 10_000;

interface Answer {
  term: string;
  groups: readonly DrinkGroup[] | 'failed';
}

export interface PickableDrinks {
  /** Null before the first answer. While another text is searched for, the previous drinks stay. */
  groups: readonly DrinkGroup[] | 'failed' | null;
  /** The text that they match; '' for suggestions. */
  term: string;
  isLoading: boolean;
  retry(): void;
}

/** @param lines of the order when the picker opened: the others are suggested */
export function useDrinks(typed: string, lines: readonly OrderLine[]): PickableDrinks {
  const { config } = useShop();
  const [first] = useState(lines);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [attempt, setAttempt] = useState(0);
  const text = typed.trim();
  const term = text.length < minLength ? '' : text;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `attempt` triggers another request
  useEffect(() => {
    const request = new AbortController();
    const find = async (): Promise<readonly DrinkGroup[]> => {
      const { tables } = createStore(config);
      if (term) return [{ title: '', drinks: await searchDrinks(tables, term, request.signal) }];
      const recent = rememberedOrders().flatMap(({ ordered }) => orderedDrinks(ordered));
      const brand = first[0]?.product.brand ?? null;
      const without = first.map(({ product }) => product.id);
      return suggestDrinks(
        tables,
        { recent: recent.map(({ slug }) => slug), brand, without },
        request.signal,
      );
    };
    let timeout: number | undefined;
    const timer = window.setTimeout(
      () => {
        timeout = window.setTimeout(() => {
          request.abort();
          setAnswer({ term, groups: 'failed' });
        }, timeoutMs);
        find()
          .then(
            (groups) => {
              if (!request.signal.aborted) setAnswer({ term, groups });
            },
            (error: unknown) => {
              if (request.signal.aborted) return;
              console.warn('The drinks could not be loaded', error);
              setAnswer({ term, groups: 'failed' });
            },
          )
          .finally(() => window.clearTimeout(timeout));
      },
      term ? typingPauseMs : 0,
    );
    return () => {
      window.clearTimeout(timer);
      window.clearTimeout(timeout);
      request.abort();
    };
  }, [config, first, term, attempt]);

  return {
    groups: answer?.groups ?? null,
    term: answer?.term ?? '',
    isLoading: answer?.term !== term,
    retry() {
      setAnswer(null);
      setAttempt(attempt + 1);
    },
  };
}
