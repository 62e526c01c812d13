// The shop's sign: a leaf whose stem hooks into a J, and the name beside it.

const leaf =
  'M62 6C88 20 92 56 64 76C58 80 52 82 47 83C40 94 26 97 16 88C11 83 12 75 18 73C23 71 27 75 27 79C32 81 37 79 39 74C27 52 34 20 62 6Z';
const drop = 'M61 30C69 42 75 49 75 57C75 65 69 70 61.5 70C54 70 48 65 48 57C48 49 54 42 61 30Z';

export function Wordmark({ name, isOnDusk = false }: { name: string; isOnDusk?: boolean }) {
  return (
    <span className="inline-flex items-center gap-1.5">
      <svg viewBox="6 2 82 94" aria-hidden="true" className="h-9 w-auto sm:h-10">
        <path d={leaf} className={isOnDusk ? 'fill-leaf-400' : 'fill-leaf-600'} />
        <path d={drop} className="fill-ember-400" />
      </svg>
      <span
        className={`font-display text-[1.375rem] leading-none font-extrabold tracking-tight whitespace-nowrap ${isOnDusk ? 'text-white' : 'text-dusk-900'}`}
      >
        {name}
      </span>
    </span>
  );
}
