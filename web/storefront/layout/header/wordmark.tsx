// The shop's logo: a sprouting J whose hook ends in a drop, and the name.

const leaves =
  'M60 48C46 26 57 5 91 2C95 32 82 47 60 48ZM62.5 44C71 38 78 27 82 12C73 22 65 32 60.5 42ZM54 46C36 48 22 38 18 19C38 17 52 26 54 46Z';
const stem = 'M60 44V68C60 83 49 90 36 87';
const drop = 'M27 50C36 63 43 71 43 80C43 89.5 36 96 27 96C18 96 11 89.5 11 80C11 71 18 63 27 50Z';

export function Wordmark({ name, isOnDusk = false }: { name: string; isOnDusk?: boolean }) {
  return (
    <span className="inline-flex items-center gap-1.5">
      <svg
        viewBox="8 0 88 98"
        width="32"
        height="36"
        aria-hidden="true"
        className={`h-9 w-auto sm:h-10 ${isOnDusk ? 'text-leaf-400' : 'text-leaf-600'}`}
      >
        <path d={leaves} fill="currentColor" fillRule="evenodd" />
        <path d={stem} fill="none" stroke="currentColor" strokeWidth="14" />
        <path d={drop} className="fill-ember-400" />
      </svg>
      <span
        className={`font-display text-xl leading-none font-extrabold tracking-tight wrap-anywhere md:whitespace-nowrap ${isOnDusk ? 'text-white' : 'text-dusk-900'}`}
      >
        {name}
      </span>
    </span>
  );
}
