// The search box of header and drawer: opens the shop page, and suggests drinks once their code has loaded. A plain
// form before hydration.
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { useNavigate } from 'react-router';
import { useLeaveDialog } from '../../../ui/dialog/dialog-history.ts';
import { Icon } from '../../../ui/icons.tsx';
import type { SuggestionList } from './search-suggestions.tsx';

// Loaded when the box gets focus. Without it the form still searches.
const SearchSuggestions = lazy(() =>
  import('./search-suggestions.tsx').catch(() => ({ default: () => <></> })),
);

export function HeaderSearch({ id, onSearch }: { id: string; onSearch?: () => void }) {
  const navigate = useNavigate();
  const { replace } = useLeaveDialog();
  const input = useRef<HTMLInputElement>(null);
  const [isHydrated, setHydrated] = useState(false);
  const [isUsed, setUsed] = useState(false);
  const [list, setList] = useState<SuggestionList>({ isOpen: false, activeId: undefined });

  useEffect(() => {
    setHydrated(true);
    if (document.activeElement === input.current) setUsed(true);
  }, []);

  function search(event: React.SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const term = String(new FormData(event.currentTarget).get('search') ?? '').trim();
    if (!term) return;
    onSearch?.();
    void navigate(`/shop?search=${encodeURIComponent(term)}`, { replace });
  }

  return (
    <search className="w-full">
      <form action="/shop" onSubmit={search} className="relative">
        <label htmlFor={id} className="sr-only">
          Search drinks
        </label>
        <input
          ref={input}
          id={id}
          name="search"
          maxLength={100}
          type="text"
          inputMode="search"
          enterKeyHint="search"
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          placeholder="Search drinks"
          onFocus={() => setUsed(true)}
          {...(isHydrated
            ? {
                role: 'combobox',
                'aria-autocomplete': 'list' as const,
                'aria-expanded': list.isOpen,
                'aria-controls': `${id}-list`,
                'aria-activedescendant': list.activeId,
              }
            : { role: 'searchbox' })}
          className="block min-h-11 w-full rounded-pill border border-line-strong bg-card py-2 pr-12 pl-5 text-sm text-ink placeholder:text-ink-faint hover:border-dusk-500"
        />
        <button
          type="submit"
          aria-label="Search"
          className="absolute inset-y-0 right-0 grid w-11 place-items-center rounded-pill text-dusk-700 hover:text-leaf-700"
        >
          <Icon name="search" />
        </button>
        {isUsed ? (
          <Suspense fallback={null}>
            <SearchSuggestions id={`${id}-list`} input={input} onListChange={setList} onChoose={onSearch} />
          </Suspense>
        ) : null}
      </form>
    </search>
  );
}
