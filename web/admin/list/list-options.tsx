// How a list is used: named views, and single keys.
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { box } from './list-toolbar.tsx';
import type { SavedViews } from './saved-views.ts';
import { useSingleKeys } from './use-row-keys.ts';

export function ListOptions({ views }: { views: SavedViews }) {
  const [keys, setKeys] = useSingleKeys();
  return (
    <div className="col-span-full flex w-full flex-wrap items-center gap-x-4 gap-y-2 text-sm text-ink-soft">
      <SaveView views={views} />
      <label className="flex min-h-11 items-center gap-2 max-md:hidden">
        <input
          type="checkbox"
          checked={keys}
          onChange={({ target }) => setKeys(target.checked)}
          className="size-4.5 accent-dusk-800"
        />
        <span>
          Keys: <kbd>j</kbd> and <kbd>k</kbd> move, <kbd>x</kbd> selects, <kbd>Enter</kbd> opens, <kbd>/</kbd>{' '}
          searches, <kbd>n</kbd> begins an order
        </span>
      </label>
    </div>
  );
}

function SaveView({ views: { views, current, save, remove } }: { views: SavedViews }) {
  const [name, setName] = useState('');
  return (
    <>
      {current ? (
        <form
          className="flex items-center gap-2"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() === '') return;
            save(name.trim());
            setName('');
          }}
        >
          <input
            aria-label="Name of this view"
            placeholder="Name of this view"
            value={name}
            maxLength={40}
            onChange={({ target }) => setName(target.value)}
            className={`${box} w-44 px-2`}
          />
          <Button type="submit" tone="quiet" className="px-4!">
            Save view
          </Button>
        </form>
      ) : null}
      {views.map((view) => (
        <span key={view.name} className="inline-flex items-center">
          {view.name}
          <button
            type="button"
            onClick={() => remove(view.name)}
            aria-label={`Remove the view ${view.name}`}
            title="Remove this view"
            className="grid size-11 place-items-center rounded-md hover:bg-paper-deep hover:text-ink"
          >
            <Icon name="close" className="size-3.5" />
          </button>
        </span>
      ))}
    </>
  );
}
