// The page at /phone: a phone that shows the prompt, to enter a PIN or decline.
import { html } from 'hono/html';
import { scriptedOutcomes } from '../requests/outcomes.ts';
import type { SimulatorSettings } from '../settings.ts';
import { type Markup, pageResponse, pageStyle } from './page.ts';
import { readPhoneNumber, writePhoneNumber } from './phone-number.ts';
import { phoneScript } from './phone-script.ts';
import { phoneStyle } from './phone-style.ts';

const style = pageStyle + phoneStyle;

/** The phone with this number, or a form that asks for one. */
export function phonePage(number: string | undefined, settings: SimulatorSettings): Promise<Response> {
  const phone = readPhoneNumber(number ?? '');
  if (phone !== null) {
    return pageResponse({
      title: `Phone ${writePhoneNumber(phone)}`,
      style,
      script: phoneScript,
      body: phoneBody(phone, settings),
    });
  }
  const isWrong = number !== undefined && number.trim() !== '';
  return pageResponse({
    title: 'Which phone?',
    style,
    body: numberForm(isWrong ? number : ''),
    status: isWrong ? 400 : 200,
  });
}

function numberForm(wrongNumber: string): Markup {
  return html`<main>
<p class="badge">Simulator: no money moves</p>
<h1>Which phone do you want to hold?</h1>
<form class="field" action="phone" method="get">
<label for="number">Phone number</label>
<input id="number" name="number" type="tel" inputmode="tel" autocomplete="off" placeholder="0712345678" value="${wrongNumber}" required aria-describedby="number-problem">
<button class="main-button">Open the phone</button>
</form>
<p id="number-problem" class="problem">${wrongNumber === '' ? '' : 'That is not a Kenyan mobile number. Try one like 0712345678.'}</p>
<p><a href="./">What each number does</a></p>
</main>`;
}

function phoneBody(phone: string, settings: SimulatorSettings): Markup {
  const { merchantName, shortcode, tillNumber } = settings;
  const scripted = scriptedOutcomes.find(({ ending }) => phone.endsWith(ending));
  return html`<main class="stage" data-phone="${phone}" data-merchant="${merchantName}" data-paybill="${shortcode}">
<header>
<p class="badge">Simulator: no money moves</p>
<h1>This is the phone <span class="number">${writePhoneNumber(phone)}</span></h1>
<p>Pay in the shop with this number and keep this page open: the <span class="number">M-PESA</span> prompt appears on the phone, and waits for your PIN.</p>
</header>
<div class="phone">
<div class="screen">
<div class="bar"><span id="time">--:--</span><span>Pretend network</span></div>
<svg class="skyline" viewBox="0 0 320 120" preserveAspectRatio="xMidYMax slice" aria-hidden="true" focusable="false"><circle cx="268" cy="70" r="24"/><path d="M0 120V96h20V72h15v24h14V60h20v36h12V44l8-18 8 18v52h16V68h24v28h20V82h8v14q90-10 175 0v24z"/><path d="M225 94l4-22-17-13 2-3 16 10 1-10h4l1 10 15-10 2 3-16 13 3 22z"/><path d="M188 60c3-11 22-18 44-18s42 7 45 18c-9-4-16-1-23-4-8 4-15 3-22 2-8 1-15 2-22-2-7 3-14 0-22 4z"/></svg>
<div id="home" class="home">
<p id="connection" class="quiet" role="status">Waiting for a prompt. It appears here by itself.</p>
<ol id="messages" class="messages" aria-live="polite" aria-label="Messages" tabindex="-1"></ol>
<details id="hand" class="hand">
<summary>Pay a till or paybill by hand</summary>
<form id="hand-form" novalidate autocomplete="off">
<label for="hand-number">Pay to</label>
<select id="hand-number" name="number">
<option value="${shortcode}">Paybill ${shortcode}</option>
<option value="${tillNumber}">Till ${tillNumber}</option>
</select>
<div id="hand-account"><label for="hand-reference">Account (the tracking number)</label>
<input id="hand-reference" name="reference" maxlength="20" autocapitalize="characters" autocomplete="off"></div>
<label for="hand-amount">Amount in shillings</label>
<input id="hand-amount" name="amount" inputmode="numeric" maxlength="6" autocomplete="off" aria-describedby="hand-problem">
<p id="hand-problem" class="problem" role="alert"></p>
<button class="main-button">Pay</button>
</form>
</details>
</div>
<section id="prompt" class="prompt" role="dialog" aria-labelledby="question" hidden>
<form id="pin-form" novalidate autocomplete="off">
<p id="question" class="question"></p>
<label for="pin">Enter M-PESA PIN</label>
<input id="pin" name="pin" type="password" inputmode="numeric" pattern="[0-9]{4}" maxlength="4" autocomplete="off" aria-describedby="pin-hint pin-problem">
<p id="pin-hint" class="hint">Pretend PIN: 1234. <span id="left"></span></p>
<p id="pin-problem" class="problem" role="alert"></p>
<div class="choices"><button type="button" id="decline" class="plain-button">Cancel</button><button class="main-button">Send</button></div>
</form>
</section>
</div>
</div>
<div class="story">
<ul class="hints">
<li><strong>1234</strong> (or any other PIN) pays.</li>
<li><strong>0000</strong> is a wrong PIN.</li>
<li><strong>Cancel</strong> declines.</li>
</ul>
<label class="rule"><input type="checkbox" id="repeat-rule" checked> Refuse the same amount twice within two minutes (result 17), as <span class="number">M-PESA</span> does</label>
${scripted ? html`<p class="script">This number follows a script for any PIN: ${scripted.description}.</p>` : ''}
<p><a href="./">What each number does</a></p>
</div>
<noscript><p class="problem">The phone needs JavaScript to receive prompts.</p></noscript>
</main>`;
}
