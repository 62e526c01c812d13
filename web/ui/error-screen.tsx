// What is shown instead of a page that is not there or that failed.
import { Link } from 'react-router';
import { buttonStyle } from './button.tsx';

export function ErrorScreen({ isMissing }: { isMissing: boolean }) {
  return (
    <section className="page grid min-h-[60vh] place-content-center justify-items-center gap-5 py-20 text-center">
      {isMissing ? (
        <>
          <h1 className="text-[clamp(6rem,24vw,13rem)] leading-[0.8] font-extrabold tracking-tight text-dusk-800">
            404
          </h1>
          <p className="font-display text-2xl font-semibold">Oops! Page not found</p>
          <p className="max-w-prose text-ink-soft">
            Whatever was here has been drunk. The fridge by the door is still full.
          </p>
        </>
      ) : (
        <>
          <p aria-hidden="true" className="text-[5rem] leading-none">
            🧃
          </p>
          <h1 className="text-4xl">Unexpected Application Error!</h1>
          <p className="max-w-prose text-ink-soft">
            Something spilled on our side. Nothing you did; please try again in a moment.
          </p>
        </>
      )}
      <Link to="/" className={buttonStyle('leaf', 'large')}>
        Return to Home
      </Link>
    </section>
  );
}
