// An indeterminate progress indicator with its text.

export function Spinner({ label }: { label: string }) {
  return (
    <p role="status" className="grid justify-items-center gap-4 text-sm font-semibold text-ink-soft">
      <svg
        viewBox="0 0 40 40"
        width="40"
        height="40"
        aria-hidden="true"
        fill="none"
        className="size-10 motion-safe:animate-spin"
      >
        <circle cx="20" cy="20" r="16" stroke="var(--color-line)" strokeWidth="4" />
        <path
          d="M20 4a16 16 0 0 1 16 16"
          stroke="var(--color-leaf-600)"
          strokeWidth="4"
          strokeLinecap="round"
        />
      </svg>
      {label}
    </p>
  );
}
