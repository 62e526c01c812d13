// Shown instead of a page that does not exist or failed.
import { Link, useLocation } from 'react-router';
import { buttonStyle } from './button.tsx';

interface ErrorScreenProps {
  isMissing: boolean;
  /** The server answered that it cannot show the page now. */
  isUnavailable?: boolean;
  /** Offline, and the page is not cached on the device. */
  isOffline?: boolean;
}

export function ErrorScreen({ isMissing, isUnavailable = false, isOffline = false }: ErrorScreenProps) {
  const { pathname, search } = useLocation();
  return (
    <section
      data-to-the-edge
      className="on-dusk relative overflow-hidden bg-[linear-gradient(180deg,var(--color-dusk-950),var(--color-dusk-800)_55%,var(--color-afterglow))] text-white"
    >
      <div
        aria-hidden="true"
        className="absolute bottom-[-7rem] left-1/2 size-80 -translate-x-1/2 rounded-full bg-linear-to-b from-sun-high to-sun-low shadow-sun md:bottom-[-12rem] md:size-120"
      />
      <div className="page relative grid min-h-[68vh] content-start justify-items-center gap-5 pt-16 pb-56 text-center md:pt-24 md:pb-84">
        {isMissing ? (
          <>
            <h1 className="text-missing font-extrabold tracking-tight">404</h1>
            <p className="font-display text-2xl font-semibold">Oops! Page not found</p>
            <p className="max-w-[25.5em] text-dusk-100">
              Whatever was here has been drunk. The fridge by the door is still full.
            </p>
          </>
        ) : isOffline ? (
          <>
            <h1 className="text-4xl">No network, no juice. Yet.</h1>
            <p className="max-w-[25.5em] text-dusk-100">
              You are offline, and this page is not stored on this device. Nothing is lost; it is one tap away
              once you are back.
            </p>
          </>
        ) : isUnavailable ? (
          <>
            <h1 className="text-4xl">This page didn't load</h1>
            <p className="max-w-[25.5em] text-dusk-100">
              Something spilled on our side. Nothing you did, and nothing you ordered is lost. Please try
              again in a moment.
            </p>
          </>
        ) : (
          <>
            <h1 className="text-4xl">Unexpected Application Error!</h1>
            <p className="max-w-[25.5em] text-dusk-100">
              Something spilled on our side. Nothing you did; please try again in a moment.
            </p>
          </>
        )}
        {isMissing || isOffline ? null : <RequestId />}
        <div className="flex flex-wrap justify-center gap-3">
          {isMissing ? null : (
            <Link reloadDocument to={pathname + search} className={buttonStyle('ember', 'large')}>
              Try again
            </Link>
          )}
          <Link to="/" className={buttonStyle(isMissing ? 'ember' : 'glass', 'large')}>
            Return to Home
          </Link>
          {isUnavailable ? (
            <Link to="/contact" className={buttonStyle('glass', 'large')}>
              Contact us
            </Link>
          ) : null}
        </div>
      </div>
    </section>
  );
}

/** Filled in by the server, so that staff can find the request in the log (`server/http/request-id.ts`). */
function RequestId() {
  return (
    <p
      data-request-id=""
      suppressHydrationWarning
      className="text-sm text-dusk-100 empty:hidden"
      // React keeps the server's markup only in an element with this prop.
      dangerouslySetInnerHTML={{ __html: '' }}
    />
  );
}
