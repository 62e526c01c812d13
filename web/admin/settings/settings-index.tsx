// The index of the settings with its search: left of a section, or a screen of its own where there is no room for both.
import { useEffect, useId, useRef, useState } from 'react';
import { Link } from 'react-router';
import { Icon } from '../../ui/icons.tsx';
import { box } from '../list/list-toolbar.tsx';
import {
  type SectionId,
  searchSettings,
  sectionIds,
  sectionUrl,
  settingsSections,
} from './settings-sections.ts';

interface SettingsIndexProps {
  /** Null where the URL names none. */
  chosen: SectionId | null;
  /** Sections with unsaved changes. */
  changed: ReadonlySet<SectionId>;
  /** Called with the URL of a chosen result, which may be open already. */
  onChoose(to: string): void;
}

const isEditable = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'));

export function SettingsIndex({ chosen, changed, onChoose }: SettingsIndexProps) {
  const [typed, setTyped] = useState('');
  const results = searchSettings(typed);
  const id = useId();
  const search = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const isSearching = typed.trim() !== '';

  useEffect(() => {
    const focusSearch = (event: KeyboardEvent) => {
      const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
      if (event.key !== '/' || hasModifier || event.defaultPrevented || isEditable(event.target)) return;
      if (document.querySelector('[role=dialog][data-state=open]')) return;
      event.preventDefault();
      search.current?.focus();
    };
    window.addEventListener('keydown', focusSearch);
    return () => window.removeEventListener('keydown', focusSearch);
  }, []);

  const links = () => [...(list.current?.querySelectorAll<HTMLElement>('a') ?? [])];

  /** Up and down go through the results, from the search and back to it. */
  function moveFocus(event: React.KeyboardEvent, by: 1 | -1) {
    event.preventDefault();
    const stops = [search.current, ...links()];
    const now = stops.indexOf(document.activeElement as HTMLInputElement | null);
    stops[Math.min(Math.max(now + by, 0), stops.length - 1)]?.focus();
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the field and the links inside
    <div
      className="grid grid-cols-[minmax(0,1fr)] content-start gap-3"
      onKeyDown={(event) => {
        if (event.key === 'ArrowDown') moveFocus(event, 1);
        else if (event.key === 'ArrowUp') moveFocus(event, -1);
        else if (event.key === 'Escape' && isSearching) {
          setTyped('');
          search.current?.focus();
        }
      }}
    >
      <search>
        <form
          className="relative"
          onSubmit={(event) => {
            event.preventDefault();
            if (isSearching) links()[0]?.click();
          }}
        >
          <Icon
            name="search"
            className="pointer-events-none absolute top-1/2 left-3.5 size-4.5 -translate-y-1/2 text-ink-faint"
          />
          <input
            ref={search}
            type="search"
            aria-label="Search settings"
            aria-keyshortcuts="/"
            aria-describedby={id}
            placeholder="Search settings..."
            value={typed}
            maxLength={100}
            autoComplete="off"
            onChange={({ target }) => setTyped(target.value)}
            className={`${box} w-full pr-3 pl-10 placeholder:text-ink-faint`}
          />
        </form>
      </search>
      <p id={id} role="status" className={isSearching ? 'text-sm text-ink-soft' : 'sr-only'}>
        {isSearching
          ? results.length === 0
            ? 'No setting is called so. Try another word.'
            : results.length === 1
              ? 'One result'
              : `${results.length} results`
          : ''}
      </p>
      <div ref={list}>
        {isSearching ? (
          <ul aria-label="Results" className="grid grid-cols-[minmax(0,1fr)] gap-1">
            {results.map(({ label, words, to }) => (
              <li key={`${label} ${to}`}>
                <Link
                  to={to}
                  onClick={() => {
                    setTyped('');
                    onChoose(to);
                  }}
                  className="grid min-h-11 content-center rounded-md px-3 py-1.5 hover:bg-paper-deep"
                >
                  <span className="text-sm font-semibold">{label}</span>
                  <span className="line-clamp-2 text-sm text-ink-soft lg:text-xs">{words}</span>
                </Link>
              </li>
            ))}
          </ul>
        ) : (
          <nav aria-label="Settings">
            <ul className="grid grid-cols-[minmax(0,1fr)] gap-1 max-lg:divide-y max-lg:divide-line max-lg:overflow-hidden max-lg:rounded-lg max-lg:border max-lg:border-line max-lg:bg-card">
              {sectionIds.map((each) => (
                <li key={each}>
                  <SectionLink
                    id={each}
                    isChosen={(chosen ?? 'shop') === each}
                    isChanged={changed.has(each)}
                  />
                </li>
              ))}
            </ul>
          </nav>
        )}
      </div>
    </div>
  );
}

function SectionLink({ id, isChosen, isChanged }: { id: SectionId; isChosen: boolean; isChanged: boolean }) {
  const { title, summary } = settingsSections[id];
  return (
    <Link
      to={sectionUrl(id)}
      aria-current={isChosen ? 'page' : undefined}
      className="flex min-h-11 items-center gap-3 px-3 hover:bg-paper-deep max-lg:py-2.5 lg:rounded-md lg:aria-[current]:bg-paper-deep lg:aria-[current]:font-bold"
    >
      <span className="min-w-0 grow">
        <span className="flex items-center gap-2 font-semibold">
          {title}
          {isChanged ? (
            <span className="size-2 rounded-pill bg-ember-400 forced-color-adjust-none">
              <span className="sr-only">Not saved yet</span>
            </span>
          ) : null}
        </span>
        <span className="block truncate text-sm text-ink-soft lg:hidden">{summary}</span>
      </span>
      <span aria-hidden="true" className="text-ink-faint lg:hidden">
        ›
      </span>
    </Link>
  );
}
