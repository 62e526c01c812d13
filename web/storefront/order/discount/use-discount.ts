// The discount code of the order form. Stored in the tab until the order is placed, as what is typed elsewhere in the form.
import { useEffect, useEffectEvent, useState } from 'react';
import { type DiscountTerms, readTerms } from '../../../../domain/orders/discount.ts';
import { createStore } from '../../../../supabase/store.ts';
import { tabStorage } from '../../../lib/browser/browser-storage.ts';
import { checkCode } from '../../../lib/orders/check-discount-code.ts';
import { useAction } from '../../../ui/use-action.ts';
import { useShop } from '../../layout/use-shop.ts';
import { storeDiscount, storedDiscount } from '../form/order-memory.ts';

export interface DiscountCode {
  /** As it was typed. */
  typed: string;
  /** Of the code that is applied; null otherwise. */
  terms: DiscountTerms | null;
  /** Why the typed code is not applied. */
  problem: string | undefined;
  isChecking: boolean;
  /** Grows with each refusal: the field takes the focus then. */
  refusals: number;
  type(typed: string): void;
  /** Applies the typed code, or reads the discount of the applied one again. */
  apply(): Promise<void>;
  /** The order refused the code. */
  refuse(problem: string): void;
  remove(): void;
}

export function useDiscount(): DiscountCode {
  const { config } = useShop();
  const [{ typed, terms }, setCode] = useState(() => {
    const { code, terms } = storedDiscount(tabStorage()) ?? { code: codeOfLink(), terms: null };
    return { typed: code, terms: readTerms(terms) };
  });
  const [problem, setProblem] = useState<string>();
  const [refusals, setRefusals] = useState(0);
  const { isRunning: isChecking, run } = useAction();

  function change(code: string, found: DiscountTerms | null) {
    setCode({ typed: code, terms: found });
    storeDiscount(tabStorage(), { code, terms: found });
  }
  function refuse(reason: string) {
    setProblem(reason);
    setRefusals((count) => count + 1);
  }
  const apply = (show = refuse) =>
    run(
      async () => {
        setProblem(undefined);
        if (typed.trim() === '') {
          show('Please enter the code.');
          return;
        }
        const checked = await checkCode(createStore(config).tables, typed);
        change(checked.terms?.code ?? typed, checked.terms);
        if (checked.problem) show(checked.problem);
      },
      (error) => {
        console.warn('The discount code could not be checked', error);
        show("We couldn't check the code just now. Please try again.");
      },
    );
  // The code of a link. Refused, it leaves the focus where the form has it.
  const applyStored = useEffectEvent(() => {
    if (typed !== '' && terms === null) void apply(setProblem);
  });
  useEffect(() => applyStored(), []);

  return {
    typed,
    terms,
    problem,
    isChecking,
    refusals,
    type(next) {
      setProblem(undefined);
      change(next, null);
    },
    apply: () => apply(),
    refuse(reason) {
      refuse(reason);
      change(typed, null);
    },
    remove() {
      setProblem(undefined);
      change('', null);
    },
  };
}

/**
 * `?code=` of the URL with which the tab's document was loaded, or of the page before, whose scripts may not have been loaded yet. Read
 * here, so that pages need no script for it.
 */
function codeOfLink(): string {
  const urls = [performance.getEntriesByType('navigation')[0]?.name, document.referrer];
  for (const url of urls) {
    if (!url?.startsWith(`${location.origin}/`)) continue;
    const code = new URL(url).searchParams.get('code');
    if (code) return code.slice(0, 40);
  }
  return '';
}
