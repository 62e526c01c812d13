// The shop's mark for dark grounds.

export function StaffMark({ className = '' }: { className?: string }) {
  return (
    <svg
      viewBox="8 0 88 98"
      width="32"
      height="36"
      aria-hidden="true"
      className={`shrink-0 text-leaf-400 ${className}`}
    >
      <path
        d="M60 48C46 26 57 5 91 2C95 32 82 47 60 48ZM62.5 44C71 38 78 27 82 12C73 22 65 32 60.5 42ZM54 46C36 48 22 38 18 19C38 17 52 26 54 46Z"
        fill="currentColor"
        fillRule="evenodd"
      />
      <path d="M60 44V68C60 83 49 90 36 87" fill="none" stroke="currentColor" strokeWidth="14" />
      <path
        d="M27 50C36 63 43 71 43 80C43 89.5 36 96 27 96C18 96 11 89.5 11 80C11 71 18 63 27 50Z"
        className="fill-ember-400"
      />
    </svg>
  );
}
