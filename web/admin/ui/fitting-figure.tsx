// A single-line figure that shrinks to the width of its `@container`.

interface FittingFigureProps {
  children: string;
  /** Maximum font size, as a CSS length. */
  size: string;
  className?: string;
}

export function FittingFigure({ children, size, className = '' }: FittingFigureProps) {
  // A character is at most as wide as 0.62 of the font's size.
  const fits = `${(100 / (0.62 * children.length)).toFixed(1)}cqi`;
  return (
    <span
      style={{ fontSize: `min(${size}, ${fits})` }}
      className={`block font-display font-bold whitespace-nowrap tabular-nums ${className}`}
    >
      {children}
    </span>
  );
}
