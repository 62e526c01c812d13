// The page at /: describes the service and the outcomes by phone number, and links to the phone page.
import { html } from 'hono/html';
import { scriptedOutcomes } from '../requests/outcomes.ts';
import type { SimulatorSettings } from '../settings.ts';
import { type Markup, pageResponse, pageStyle } from './page.ts';

const style = `${pageStyle}
table{border-collapse:collapse;width:100%;background:var(--card);border-radius:.9rem;overflow:hidden;box-shadow:0 0 0 1px var(--line)}
th,td{text-align:left;padding:.6rem 1rem;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;background:#f6ecf1;font-size:.875rem}
tbody th{font-weight:650;white-space:nowrap;font-variant-numeric:tabular-nums}
`;

/** An example number with this ending. */
function exampleNumber(ending: string): string {
  return `071234${ending}`;
}

export function indexPage(settings: SimulatorSettings): Promise<Response> {
  return pageResponse({ title: 'Pretend M-PESA', style, body: body(settings) });
}

function body({ shortcode, tillNumber }: SimulatorSettings): Markup {
  return html`<main>
<p class="badge">Simulator: no money moves</p>
<h1>A pretend M-PESA to try payments with</h1>
<p>This service speaks the protocol of Safaricom’s Daraja (shortcode ${shortcode}): access tokens, STK push and query with their callbacks, payments without a prompt with their confirmations, statements, reversals and transaction status. It is not Safaricom, it reaches no phone, and every shilling in it is imaginary.</p>

<h2>Pay by hand</h2>
<p>Open the page of a phone and keep it open: prompts to that number then wait there for a PIN. The phone can also pay the paybill ${shortcode} and the till ${tillNumber} by hand.</p>
<form class="field" action="phone" method="get">
<label for="number">Phone number</label>
<input id="number" name="number" type="tel" inputmode="tel" autocomplete="off" placeholder="0712345678" required>
<button class="main-button">Open the phone</button>
</form>

<h2>Or let the number decide</h2>
<p>Without an open phone page, the last four digits of the paying phone choose what happens.</p>
<table>
<thead><tr><th scope="col">Ends in</th><th scope="col">What happens</th></tr></thead>
<tbody>
${scriptedOutcomes.map(
  ({ ending, description }) =>
    html`<tr><th scope="row"><a href="phone?number=${exampleNumber(ending)}">${ending}</a></th><td>${description}</td></tr>
`,
)}<tr><th scope="row">anything else</th><td>Paid after about two seconds</td></tr>
</tbody>
</table>

<h2>For tests and tools</h2>
<p>Every push and its outcome are in the <a href="simulator/ledger">ledger</a>. The rest of the control API answers under <code>/simulator/</code>.</p>
</main>`;
}
