// A banner on every page while payments are simulated.

export function TestModeBanner({ phonePageUrl }: { phonePageUrl: string | null }) {
  return (
    <aside
      aria-label="Practice shop"
      className="bg-ember-100 px-4 py-1.5 text-center text-xs font-semibold text-ember-900"
    >
      Practice shop: payments are simulated, no money moves.
      {phonePageUrl ? (
        <>
          {' '}
          <a
            href={phonePageUrl}
            target="_blank"
            rel="noreferrer"
            className="-my-2.5 inline-block py-3.5 underline underline-offset-2 hover:text-ink"
          >
            Open the practice phone
          </a>
        </>
      ) : null}
    </aside>
  );
}
