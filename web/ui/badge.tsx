// A small coloured label, such as a status.

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

interface BadgeProps {
  tone: BadgeTone;
  /** In a row of a list. */
  isSmall?: boolean | undefined;
  children: React.ReactNode;
}

export function Badge({ tone, isSmall = false, children }: BadgeProps) {
  const size = isSmall ? 'px-2 py-px text-xs leading-4.5 whitespace-nowrap' : 'px-3 py-1 text-sm';
  return (
    <span
      className={`inline-flex items-center gap-1.5 rounded-pill font-bold forced-colors:border ${size} ${tones[tone]}`}
    >
      {children}
    </span>
  );
}
