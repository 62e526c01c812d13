// Suggestions for the text in the search box: the list of an ARIA 1.2 combobox whose input belongs to the form.
import { type RefObject, useEffect, useEffectEvent, useState } from 'react';
import { useNavigate } from 'react-router';
import { createStore } from '../../../../supabase/store.ts';
import { areProducts } from '../../../lib/listed-products.ts';
import { useLeaveDialog } from '../../../ui/dialog/dialog-history.ts';
import { flavourSlug } from '../../../ui/flavour.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { Price } from '../../../ui/price.tsx';
import { ProductImage } from '../../../ui/product-image.tsx';
import { useShop } from '../use-shop.ts';

/** ARIA attributes of the input. */
export interface SuggestionList {
  isOpen: boolean;
  /** Id of the option selected with the arrow keys. */
  activeId: string | undefined;
}

interface SearchSuggestionsProps {
  /** Id of the list. */
  id: string;
  input: RefObject<HTMLInputElement | null>;
  onListChange: (list: SuggestionList) => void;
  /** Called when a drink is chosen. */
  onChoose?: (() => void) | undefined;
}

const maxSuggestions = 5;
const minLength = 2;
const typingPauseMs = 180;

export default function SearchSuggestions({ id, input, onListChange, onChoose }: SearchSuggestionsProps) {
  const navigate = useNavigate();
  const { replace } = useLeaveDialog();
  const [term, setTerm] = useState('');
  const [isWanted, setWanted] = useState(false);
  const [active, setActive] = useState(-1);
  const answer = useSuggestions(term);
  const products = answer?.products ?? [];
  const isOpen = isWanted && products.length > 0;
  const activeId = isOpen && active >= 0 ? `${id}-${active}` : undefined;

  useEffect(() => onListChange({ isOpen, activeId }), [onListChange, isOpen, activeId]);
  useEffect(() => () => onListChange({ isOpen: false, activeId: undefined }), [onListChange]);
  useEffect(() => {
    if (activeId) document.getElementById(activeId)?.scrollIntoView({ block: 'nearest' });
  }, [activeId]);

  function close() {
    setWanted(false);
    setActive(-1);
  }

  function choose(index: number, page: 'drink' | 'order form' = 'drink') {
    const product = products[index];
    if (!product) return;
    close();
    onChoose?.();
    void navigate(`/shop/${product.slug}${page === 'order form' ? '/order' : ''}`, { replace });
  }

  function moveTo(event: KeyboardEvent, index: number) {
    event.preventDefault();
    setWanted(true);
    setActive(index);
  }

  const onInput = useEffectEvent(() => {
    setTerm(input.current?.value.trim() ?? '');
    setWanted(true);
    setActive(-1);
  });
  const onClose = useEffectEvent(close);
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    const last = products.length - 1;
    // While an input method composes a character, its keys belong to the input method.
    if (last < 0 || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === 'ArrowDown') moveTo(event, isOpen && active < last ? active + 1 : 0);
    else if (event.key === 'ArrowUp') moveTo(event, isOpen && active > 0 ? active - 1 : last);
    else if (!isOpen) return;
    else if (event.key === 'Escape') {
      // Escape closes the list, not the menu around it.
      event.preventDefault();
      close();
    } else if (active < 0) return;
    else if (event.key === 'Home') moveTo(event, 0);
    else if (event.key === 'End') moveTo(event, last);
    else if (event.key === 'Enter') {
      event.preventDefault();
      choose(active);
    }
  });

  useEffect(() => {
    const box = input.current;
    if (!box) return;
    const { form } = box;
    const onTyped = () => onInput();
    const onKey = (event: KeyboardEvent) => onKeyDown(event);
    const onEnd = () => onClose();
    box.addEventListener('input', onTyped);
    box.addEventListener('keydown', onKey);
    box.addEventListener('blur', onEnd);
    form?.addEventListener('submit', onEnd);
    // Also counts text that was typed before this code loaded.
    if (document.activeElement === box && box.value.trim()) onInput();
    return () => {
      box.removeEventListener('input', onTyped);
      box.removeEventListener('keydown', onKey);
      box.removeEventListener('blur', onEnd);
      form?.removeEventListener('submit', onEnd);
    };
  }, [input]);

  return (
    <>
      <p role="status" className="sr-only">
        {isWanted && answer ? announce(products.length) : null}
      </p>
      <ul
        id={id}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: the listbox is a list element
        role="listbox"
        aria-label="Drinks"
        hidden={!isOpen}
        className="absolute top-full right-0 z-40 mt-2 max-h-[min(24rem,60dvh)] w-full overflow-y-auto overscroll-contain rounded-lg border border-line bg-card p-1.5 text-ink shadow-xl xl:w-88"
      >
        {products.map(({ slug, name, price, image_url, category, stock_quantity }, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: its keys are pressed in the input
          <li
            key={slug}
            id={`${id}-${index}`}
            // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: an option is a list item
            role="option"
            aria-selected={index === active}
            tabIndex={-1}
            data-flavour={flavourSlug(category)}
            // Keeps the focus in the input.
            onMouseDown={(event) => event.preventDefault()}
            onClick={({ target }) =>
              choose(index, (target as Element).closest('[data-plus]') ? 'order form' : 'drink')
            }
            onMouseMove={() => setActive(index)}
            className="flex min-h-14 cursor-pointer items-center gap-3 rounded-md px-2 py-1.5 aria-selected:bg-paper-deep"
          >
            <span className="@container relative size-11 shrink-0 overflow-hidden rounded-md bg-[color-mix(in_oklab,var(--flavour)_30%,var(--color-paper-deep))]">
              <ProductImage src={image_url} alt="" sizes="44px" className="absolute inset-0 size-full" />
            </span>
            <span className="grid min-w-0 flex-1 text-sm leading-tight">
              <span className="font-semibold">{name}</span>
              <span className="flex flex-wrap items-baseline gap-x-2">
                <Price cents={price} />
                {stock_quantity === 0 ? <span className="text-xs text-ink-soft">Out of Stock</span> : null}
              </span>
            </span>
            {/* A shortcut of pointers: an option contains no button. The page of the drink, which Enter opens, has it for all. */}
            {stock_quantity === 0 ? null : (
              <span
                data-plus
                title="Order"
                aria-hidden="true"
                className="-my-1.5 -mr-2 grid min-h-14 w-12 shrink-0 place-items-center self-stretch"
              >
                <span className="grid size-9 place-items-center rounded-pill bg-leaf-100 text-leaf-800 hover:bg-leaf-600 hover:text-white">
                  <Icon name="plus" className="size-4.5" />
                </span>
              </span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

function announce(count: number): string {
  if (count === 0) return 'No drinks suggested.';
  return `${count === 1 ? '1 drink' : `${count} drinks`} suggested. Use the up and down arrows to choose.`;
}

/**
 * Best matches of a text; null before the first response and without a connection. Shows the previous matches while
 * loading.
 */
function useSuggestions(term: string) {
  const { config } = useShop();
  const [answer, setAnswer] = useState<Awaited<ReturnType<typeof suggest>>>(null);
  useEffect(() => {
    if (term.length < minLength) {
      setAnswer(null);
      return;
    }
    const request = new AbortController();
    const timer = window.setTimeout(async () => {
      const found = await suggest(config, term, request.signal);
      if (!request.signal.aborted) setAnswer(found);
    }, typingPauseMs);
    return () => {
      window.clearTimeout(timer);
      request.abort();
    };
  }, [config, term]);
  return answer;
}

async function suggest(config: ReturnType<typeof useShop>['config'], search: string, signal: AbortSignal) {
  const { data } = await createStore(config)
    // Not in the query string: there a text such as "eq.x" would be a filter.
    .tables.rpc('search_products', { search, page_size: maxSuggestions })
    .select('slug, name, price, image_url, category, stock_quantity:units_for_sale')
    .abortSignal(signal);
  return data && areProducts(data) ? { products: data } : null;
}
