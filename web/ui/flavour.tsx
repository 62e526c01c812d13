// A flavour's name and colour.

/** The slug that selects a flavour's colour from the palette. As `data-flavour` it sets `var(--flavour)`. */
export function flavourSlug(category: string | null): string | undefined {
  return category?.trim().toLowerCase().replaceAll(/\s+/g, '-');
}

export function FlavourDot({
  category,
  className = 'size-3',
}: {
  category: string | null;
  className?: string;
}) {
  return (
    <span
      aria-hidden="true"
      data-flavour={flavourSlug(category)}
      className={`inline-block shrink-0 forced-color-adjust-none rounded-pill bg-(--flavour) shadow-rim ${className}`}
    />
  );
}
