// A small coloured word: a status, or what kind of thing something is.

export type BadgeTone = 'yellow' | 'blue' | 'purple' | 'orange' | 'green' | 'red' | 'grey';

const tones: Record<BadgeTone, string> = {
  yellow: 'bg-tone-yellow-soft text-tone-yellow',
  blue: 'bg-tone-blue-soft text-tone-blue',
  purple: 'bg-tone-purple-soft text-tone-purple',
  orange: 'bg-tone-orange-soft text-tone-orange',
  green: 'bg-tone-green-soft text-tone-green',
  red: 'bg-tone-red-soft text-tone-red',
  grey: 'bg-tone-grey-soft text-tone-grey',
};

export function Badge({ tone, children }: { tone: BadgeTone; children: React.ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1.5 rounded-pill px-3 py-1 text-sm font-bold forced-colors:border ${tones[tone]}`}
    >
      {children}
    </span>
  );
}
