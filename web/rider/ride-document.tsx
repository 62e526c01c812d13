// The document of the rider's page: complete without scripts, and readable in sunlight (contrast 7:1 and more).
import { renderToStaticMarkup } from 'react-dom/server.edge';
import { deliveryFailures } from '../../domain/deliveries/delivery-failure.ts';
import { formatArrival } from '../../domain/deliveries/delivery-promise.ts';
import {
  type DoneJob,
  describeEnd,
  describePress,
  isOpenJob,
  type Job,
  type OpenJob,
  offeredSteps,
  type Ride,
  type RiderStep,
  stepLabels,
} from '../../domain/deliveries/rider-page.ts';
import { whatsappLink } from '../../domain/messages/whatsapp-link.ts';
import { chargeCents } from '../../domain/money.ts';
import { nairobiClock } from '../../domain/nairobi-time.ts';
import { formatPhone } from '../../domain/people/phone.ts';
import { colours } from './ride-colours.ts';
import { startRide } from './ride-script.ts';

// Transparent borders are edges in forced colours, which remove backgrounds.
const css = `
*{box-sizing:border-box}
[hidden]{display:none!important}
html{font:18px/1.4 system-ui,-apple-system,Roboto,sans-serif;color:${colours.ink};background:${colours.paper};-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:36rem;padding:.75rem .75rem 4rem;overflow-wrap:anywhere}
header{border-bottom:3px solid ${colours.ink};padding-bottom:.5rem}
h1{font-size:1.2rem;margin:0}h2{font-size:1.25rem;margin:0}p,ul{margin:0}
a{color:${colours.link}}
.end{font-size:.9rem}
#line{background:${colours.ink};color:${colours.paper};border:2px solid transparent;font-weight:700;padding:.5rem .65rem;margin-top:.5rem;border-radius:.4rem;position:sticky;top:0;z-index:1}
.note{display:flex;justify-content:space-between;align-items:center;gap:.75rem;margin-top:.5rem;padding:.6rem .75rem;border:3px solid ${colours.done};border-radius:.4rem;font-weight:700}
.refused{margin:0}
#announcement{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.note.bad{border-color:${colours.danger};background:${colours.dangerShade};color:${colours.ink}}
.note button{min-height:3rem;min-width:3.5rem;font:inherit;background:${colours.paper};color:${colours.ink};border:2px solid ${colours.ink};border-radius:.4rem}
article{display:grid;gap:.6rem;border:2px solid ${colours.ink};border-radius:.6rem;padding:.75rem;margin-top:.9rem}
.top{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:.4rem}
.badge{font-weight:800;padding:.1rem .5rem;border:2px solid transparent;border-radius:.3rem;white-space:nowrap}
.paid{background:${colours.done};color:${colours.paper}}.cash{background:${colours.cash};color:${colours.ink}}.bad-badge{background:${colours.danger};color:${colours.paper}}
.state{font-weight:700}.by{white-space:nowrap}
.place{font-size:1.15rem;font-weight:700}
ul{list-style:none;padding:0;font-weight:600}
.notes{border-left:6px solid ${colours.cash};padding-left:.6rem;white-space:pre-line;font-weight:600}
.links{display:grid;grid-template-columns:1fr auto 1fr;gap:.5rem;overflow-wrap:normal}
.links a,button,summary{display:flex;align-items:center;justify-content:center;min-height:3.4rem;border-radius:.5rem;font:inherit;font-weight:700;text-align:center;text-decoration:none;padding:.3rem .4rem}
.links a{border:2px solid ${colours.link};background:${colours.paper}}
button{width:100%;border:2px solid ${colours.done};background:${colours.done};color:${colours.paper};font-size:1.2rem;cursor:pointer}
button.plain{background:${colours.paper};color:${colours.done}}
.danger{border-color:${colours.danger};background:${colours.danger}}
summary{border:2px solid ${colours.danger};color:${colours.danger};background:${colours.paper};cursor:pointer}
summary::-webkit-details-marker{display:none}
form{display:grid;gap:.6rem;margin:0}
label{display:grid;gap:.25rem;font-weight:700}
.choice{display:flex;align-items:center;gap:.7rem;min-height:3rem;font-weight:600}
.choice input{width:1.6rem;height:1.6rem;flex:none}
input[type=text]{font:inherit;font-size:1.5rem;font-weight:700;letter-spacing:.08em;min-height:3.4rem;width:100%;padding:.3rem .7rem;border:2px solid ${colours.ink};border-radius:.5rem;background:${colours.paper};color:${colours.ink}}
.hint{font-weight:400;color:${colours.softInk}}
.waiting{background:${colours.ink};color:${colours.paper};border:2px solid transparent;font-weight:700;padding:.5rem .65rem;border-radius:.4rem}
.done{border-color:${colours.softInk};background:${colours.shade}}
fieldset{border:0;margin:0;padding:0;display:grid;gap:.1rem}
legend{font-weight:700;padding:0}
:focus-visible{outline:4px solid ${colours.link};outline-offset:2px}
footer{margin-top:1.2rem;border-top:2px solid ${colours.ink};padding-top:.6rem}
footer .links{grid-template-columns:3fr 2fr;margin-top:.5rem}
.summary{margin-top:.75rem}
.empty{margin-top:1rem;padding:1.5rem .75rem;text-align:center;border:2px dashed ${colours.softInk};border-radius:.6rem}
.empty b{font-size:1.15rem}
summary.plain{border-color:${colours.done};color:${colours.done}}
details[open]>summary{margin-bottom:.6rem}
.door[open]>summary{display:none}
`;

const shillings = (cents: number) => `KSh ${(cents / 100).toLocaleString('en-KE')}`;
const clock = (time: string) => nairobiClock(Date.parse(time));
const secondsBetween = (from: string, to: string) =>
  Math.max(0, Math.floor((Date.parse(to) - Date.parse(from)) / 1000));

interface Shop {
  name: string;
  phone: string;
  chat_phone: string;
}

/** Leads to other sites and apps, which get no referrer: the URL of this page is a secret. */
function Away({ href, children }: { href: string; children: React.ReactNode }) {
  return (
    <a href={href} rel="noreferrer" {...(href.startsWith('http') ? { target: '_blank' } : {})}>
      {children}
    </a>
  );
}

function ShopContacts({ shop }: { shop: Shop }) {
  return (
    <footer>
      <p>
        {shop.name}, {formatPhone(shop.phone)}
      </p>
      <p className="links">
        <Away href={`tel:${shop.phone}`}>Call the shop</Away>
        <Away href={whatsappLink(shop.chat_phone)}>WhatsApp</Away>
      </p>
    </footer>
  );
}

function Items({ items }: { items: Job['items'] }) {
  return (
    <ul>
      {items?.map(({ name, quantity }, index) => (
        <li key={index}>
          {quantity} × {name}
        </li>
      ))}
    </ul>
  );
}

interface StepFormProps {
  job: OpenJob;
  step: RiderStep;
  newKey: () => string;
  children?: React.ReactNode;
  tone?: string;
  label?: string;
}

/** Without scripts its answer opens at the job. */
function StepForm({ job, step, newKey, children, tone, label = stepLabels[step] }: StepFormProps) {
  return (
    <form
      method="post"
      action={`#job-${job.id}`}
      id={`${step}-${job.id}`}
      data-label={stepLabels[step]}
      autoComplete="off"
    >
      <input type="hidden" name="key" value={newKey()} />
      <input type="hidden" name="job" value={job.id} />
      <input type="hidden" name="step" value={step} />
      {children}
      <button type="submit" className={tone}>
        {label}
      </button>
    </form>
  );
}

/** The statuses in which a step is offered, for the page without scripts (`hidden`) and the one with them (`data-from`). */
function Offered({ job, step, children }: { job: OpenJob; step: RiderStep; children: React.ReactNode }) {
  const from = (['assigned', 'picked_up', 'in_transit'] as const).filter((status) =>
    offeredSteps[status].includes(step),
  );
  return (
    <div data-from={from.join(' ')} hidden={!from.includes(job.status)}>
      {children}
    </div>
  );
}

/** What is done at the door: shown at once on the way, and after a tap before. */
function AtTheDoor({
  job,
  isTried,
  children,
}: {
  job: OpenJob;
  isTried: boolean;
  children: React.ReactNode;
}) {
  return (
    <details
      id={`door-${job.id}`}
      className="door"
      data-open-in="in_transit"
      open={isTried || job.status === 'in_transit'}
    >
      <summary className="plain">At the door</summary>
      {children}
    </details>
  );
}

/** Area and address: the area that the customer chose, else what they wrote before the building. */
function placeOf({ area, address }: OpenJob): [place: string, details: string] {
  const place = area ?? address.split(', Building: ')[0] ?? address;
  return [place, address.startsWith(place) ? address.slice(place.length).replace(/^,? */, '') : address];
}

/** What the rider has to do, in a line. */
function Summary({ open }: { open: readonly OpenJob[] }) {
  if (open.length < 2) return null;
  const counted = (['in_transit', 'picked_up', 'assigned'] as const).flatMap((status) => {
    const count = open.filter((job) => job.status === status).length;
    return count > 0 ? [`${count} ${stepLabels[status].toLowerCase()}`] : [];
  });
  return (
    <p className="summary">
      <b>{open.length} deliveries</b>: {counted.join(', ')}
    </p>
  );
}

interface OpenCardProps {
  job: OpenJob;
  shop: Shop;
  now: string;
  /** Why its last press was refused. */
  refusal: string | null;
  newKey: () => string;
}

function OpenCard({ job, shop, now, refusal, newKey }: OpenCardProps) {
  const isLocked = job.asks_code && job.tries_left === 0;
  const cash = job.cash_cents === null ? null : chargeCents(job.cash_cents);
  const query = encodeURIComponent(job.map_point ?? `${job.address}, ${job.city}, Kenya`);
  const [place, details] = placeOf(job);
  return (
    <article
      id={`job-${job.id}`}
      data-job={job.id}
      data-number={job.order_number}
      data-status={job.status}
      aria-labelledby={`name-${job.id}`}
    >
      <div className="top">
        <h2 id={`name-${job.id}`}>{job.name}</h2>
        {cash === null ? (
          <span className="badge paid">PAID</span>
        ) : (
          <span className="badge cash">CASH {shillings(cash)}</span>
        )}
      </div>
      <p>
        {job.order_number} · <span className="state">{stepLabels[job.status]}</span>
        {job.promised_at ? (
          <>
            {' · '}
            <span className="by">{`by ${formatArrival(job.promised_at, Date.parse(now))}`}</span>
          </>
        ) : null}
      </p>
      <div>
        <p className={place.length > 40 ? 'state' : 'place'}>{place}</p>
        {details ? <p>{details}</p> : null}
      </div>
      <Items items={job.items} />
      {[job.customer_notes, job.notes].map((text, index) =>
        text ? (
          <p key={index === 0 ? 'customer' : 'shop'} className="notes">
            {index === 0 ? 'Customer' : 'Shop'}: {text}
          </p>
        ) : null,
      )}
      <p className="links">
        <Away href={`tel:${job.phone}`}>Call</Away>
        <Away
          href={whatsappLink(
            job.phone,
            `Habari ${job.first_name}, I am your rider from ${shop.name}, with your order ${job.order_number}.`,
          )}
        >
          WhatsApp
        </Away>
        <Away href={`https://www.google.com/maps/search/?api=1&query=${query}`}>Map</Away>
      </p>
      <p className="waiting" role="status" hidden />
      <p className="note bad refused" data-of={job.id} hidden={refusal === null}>
        {refusal}
      </p>
      <Offered job={job} step="picked_up">
        <StepForm job={job} step="picked_up" newKey={newKey} />
      </Offered>
      <Offered job={job} step="in_transit">
        <StepForm job={job} step="in_transit" newKey={newKey} />
      </Offered>
      <Offered job={job} step="delivered">
        {isLocked ? (
          <p className="note bad refused locked">
            Five wrong codes. Call the shop, which finishes this order.
          </p>
        ) : (
          <AtTheDoor job={job} isTried={refusal !== null}>
            <StepForm
              job={job}
              step="delivered"
              newKey={newKey}
              label={cash === null ? 'Delivered' : 'Delivered and paid'}
            >
              {job.asks_code ? (
                <label>
                  Customer's code
                  <input
                    type="text"
                    name="code"
                    inputMode="numeric"
                    pattern="(\s*[0-9]){4}\s*"
                    maxLength={8}
                    required
                  />
                  <span className="hint">
                    Four digits that the customer has
                    {job.tries_left < 5 ? <b>. {job.tries_left} left to try</b> : null}
                  </span>
                </label>
              ) : null}
              {cash === null ? null : (
                <>
                  <label>
                    Cash received (KSh)
                    <input type="text" name="received" inputMode="numeric" required />
                  </label>
                  <label className="choice">
                    <input type="checkbox" name="other" value="yes" />
                    Another amount than {shillings(cash)}
                  </label>
                </>
              )}
            </StepForm>
          </AtTheDoor>
        )}
      </Offered>
      <Offered job={job} step="failed">
        <details id={`why-${job.id}`}>
          <summary>{stepLabels.failed}</summary>
          <StepForm job={job} step="failed" newKey={newKey} tone="danger" label="Bring it back to the shop">
            <fieldset>
              <legend>Why?</legend>
              {Object.entries(deliveryFailures).map(([reason, { label }]) => (
                <label key={reason} className="choice">
                  <input type="radio" name="failure" value={reason} required />
                  {label}
                </label>
              ))}
            </fieldset>
          </StepForm>
        </details>
      </Offered>
    </article>
  );
}

function DoneCard({ job }: { job: DoneJob }) {
  const label = job.is_cancelled ? 'Cancelled' : stepLabels[job.status];
  return (
    <article
      className="done"
      id={`job-${job.id}`}
      data-job={job.id}
      data-number={job.order_number}
      data-status="done"
      data-end={describeEnd(job)}
      data-bad={job.status === 'failed' ? '' : undefined}
    >
      <div className="top">
        <h2>{job.first_name}</h2>
        <span className={`badge ${job.status === 'delivered' ? 'paid' : 'bad-badge'}`}>{label}</span>
      </div>
      <p>
        {job.order_number} · {clock(job.done_at)}
        {job.failure ? ` · ${deliveryFailures[job.failure].label}` : ''}
        {job.status === 'failed'
          ? ` · ${job.failure === null ? 'If you have it, bring it' : 'Bring it'} back to the shop`
          : ''}
      </p>
      <p className="waiting" role="status" hidden />
    </article>
  );
}

interface DocumentProps {
  title: string;
  body: Record<string, string | undefined>;
  hasScript: boolean;
  children: React.ReactNode;
}

function Document({ title, body, hasScript, children }: DocumentProps) {
  return (
    <html lang="en-KE">
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <meta name="referrer" content="no-referrer" />
        <meta name="format-detection" content="telephone=no" />
        <meta name="theme-color" content={colours.paper} />
        <title>{title}</title>
        <link rel="icon" href="data:," />
        <style dangerouslySetInnerHTML={{ __html: css }} />
      </head>
      <body {...body}>
        {children}
        {hasScript ? (
          <script dangerouslySetInnerHTML={{ __html: `if(!window.isBelowFloor)(${startRide})()` }} />
        ) : null}
      </body>
    </html>
  );
}

/**
 * @param newKey of a form: its idempotency key
 * @param hasScript false in the part that replaces the list of an open page
 */
export function renderRide(
  ride: Ride,
  { newKey, hasScript }: { newKey: () => string; hasScript: boolean },
): string {
  const press = ride.press && describePress(ride.press);
  const open = ride.jobs.filter(isOpenJob);
  const done = ride.jobs.filter((job): job is DoneJob => !isOpenJob(job));
  const refusalOf = ({ id }: OpenJob) =>
    press?.isDone === false && ride.press?.outcome !== 'code_locked' && ride.press?.delivery_id === id
      ? press.text
      : null;
  return `<!DOCTYPE html>${renderToStaticMarkup(
    <Document
      title={`${open.length > 0 ? `(${open.length}) ` : ''}${ride.shop.name}: deliveries`}
      hasScript={hasScript}
      body={{
        'data-rider': ride.rider_id,
        'data-left': String(secondsBetween(ride.now, ride.expires_at)),
        'data-read': clock(ride.now),
        ...(press
          ? {
              'data-press': press.text,
              'data-job': ride.press?.delivery_id,
              ...(press.isDone ? {} : { 'data-bad': '' }),
              ...(ride.press?.outcome === 'done' ? { 'data-done': '' } : {}),
              ...(ride.press?.outcome === 'wrong_code' ? { 'data-retype': 'code' } : {}),
            }
          : {}),
      }}
    >
      <header>
        <h1>{ride.name}</h1>
        <p className="end">
          {ride.shop.name} · until {clock(ride.expires_at)}
        </p>
      </header>
      <p id="line" role="status" hidden />
      <p id="announcement" role="status" />
      <div id="notes" aria-live="polite">
        {press && !open.some(({ id }) => !press.isDone && id === ride.press?.delivery_id) ? (
          <p className={press.isDone ? 'note' : 'note bad'}>{press.text}</p>
        ) : null}
      </div>
      <main>
        {open.length === 0 ? (
          <p className="empty">
            <b>No deliveries at the moment</b>
            <br />
            New ones appear here.
          </p>
        ) : null}
        <Summary open={open} />
        {open.map((job) => (
          <OpenCard
            key={job.id}
            job={job}
            shop={ride.shop}
            now={ride.now}
            refusal={refusalOf(job)}
            newKey={newKey}
          />
        ))}
        {done.map((job) => (
          <DoneCard key={job.id} job={job} />
        ))}
        <noscript>
          <form method="get" style={{ marginTop: '1rem' }}>
            <button type="submit" className="plain">
              Read the list again
            </button>
          </form>
        </noscript>
      </main>
      <ShopContacts shop={ride.shop} />
    </Document>,
  )}`;
}

interface ClosedPage {
  title: string;
  text: string;
  hasEnded: boolean;
  /** Not because of a failure of the shop: the same request would be refused again. */
  isRefused: boolean;
}

/** The page of a link that has ended, or one that cannot be read now. Nothing of a customer is on it. */
export function renderClosed({ title, text, hasEnded, isRefused }: ClosedPage, shop: Shop | null): string {
  return `<!DOCTYPE html>${renderToStaticMarkup(
    <Document
      title={title}
      hasScript={false}
      body={hasEnded ? { 'data-ended': '' } : isRefused ? { 'data-refused': '' } : {}}
    >
      <header>
        <h1>{title}</h1>
      </header>
      <main>
        <p style={{ marginTop: '1rem', fontWeight: 700 }}>{text}</p>
        {hasEnded ? null : (
          <form method="get" style={{ marginTop: '1rem' }}>
            <button type="submit">Try again</button>
          </form>
        )}
      </main>
      {shop ? <ShopContacts shop={shop} /> : null}
    </Document>,
  )}`;
}
