// The search box of header and drawer: leads to the shop page. A plain form before scripts arrive.
import { useNavigate } from 'react-router';
import { Icon } from '../../ui/icons.tsx';

export function HeaderSearch({ id, onSearch }: { id: string; onSearch?: () => void }) {
  const navigate = useNavigate();

  function search(event: React.SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const term = String(new FormData(event.currentTarget).get('search') ?? '').trim();
    if (!term) return;
    onSearch?.();
    navigate(`/shop?search=${encodeURIComponent(term)}`);
  }

  return (
    <search className="w-full">
      <form action="/shop" onSubmit={search} className="relative">
        <label htmlFor={id} className="sr-only">
          Search drinks
        </label>
        <input
          id={id}
          name="search"
          maxLength={100}
          type="search"
          enterKeyHint="search"
          autoComplete="off"
          placeholder="Search drinks"
          className="block min-h-11 w-full rounded-pill border border-line-strong bg-card py-2 pr-12 pl-5 text-sm text-ink placeholder:text-ink-faint hover:border-dusk-500"
        />
        <button
          type="submit"
          aria-label="Search"
          className="absolute inset-y-0 right-0 grid w-11 place-items-center rounded-pill text-dusk-700 hover:text-leaf-700"
        >
          <Icon name="search" />
        </button>
      </form>
    </search>
  );
}
