// Script of the phone page: polls for prompts every second, sends the person's answers, pays without a prompt.

export const phoneScript = `
'use strict';
(() => {
  const byId = (id) => document.getElementById(id);
  const { phone, merchant, paybill } = document.querySelector('main').dataset;
  const dialog = byId('prompt'), form = byId('pin-form'), pin = byId('pin'), problem = byId('pin-problem');
  const connection = byId('connection'), messages = byId('messages'), decline = byId('decline');
  const plainTitle = document.title, quietText = connection.textContent;
  const shownMessages = new Map();
  let shownId = null, isSending = false;

  const money = (amount) => 'KES ' + amount.toLocaleString('en-KE');
  const failures = {
    1: 'You do not have enough money in your M-PESA account.',
    17: 'You paid the same amount to the same business a moment ago. Try again after two minutes.',
    1032: 'You cancelled the request.',
    1037: 'The request was not answered in time.',
    2001: 'You entered a wrong PIN.',
  };

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function setProblem(text) {
    setText(problem, text);
    if (text) pin.setAttribute('aria-invalid', 'true');
    else pin.removeAttribute('aria-invalid');
  }

  function show(prompt, now) {
    if (!prompt) {
      if (shownId !== null) {
        shownId = null;
        if (dialog.contains(document.activeElement)) messages.focus();
        dialog.hidden = true;
        document.title = plainTitle;
      }
      return;
    }
    const seconds = Math.max(0, Math.round((prompt.expiresAt - now) / 1000));
    setText(byId('left'), seconds + ' s left to answer.');
    if (prompt.checkoutRequestId === shownId) return;
    shownId = prompt.checkoutRequestId;
    setText(byId('question'), 'Do you want to pay ' + money(prompt.amount) + ' to ' + merchant +
      ', Account ' + prompt.accountReference + '?');
    pin.value = '';
    setProblem('');
    dialog.hidden = false;
    document.title = 'Prompt! ' + plainTitle;
    pin.focus();
  }

  function promptMessage(prompt) {
    const isPaid = prompt.resultCode === 0;
    const text = isPaid
      ? prompt.receipt + ' Confirmed. ' + money(prompt.amount) + ' paid to ' + merchant + ' for account ' +
        prompt.accountReference + '. No real money moved.'
      : 'Failed: ' + money(prompt.amount) + ' to ' + merchant + ' for account ' + prompt.accountReference + '. ' +
        (failures[prompt.resultCode] || prompt.resultDesc + '.').replace(/\\.\\.$/, '.');
    const at = prompt.decisions.at(-1).at;
    return { id: prompt.checkoutRequestId, state: prompt.resultCode, isPaid, text, at };
  }

  function paymentMessages(payment) {
    const { receipt, amount, method, number, reference, at, reversal } = payment;
    const paid = {
      id: receipt, state: 'paid', isPaid: true, at,
      text: receipt + ' Confirmed. ' + money(amount) + ' paid to ' + merchant + ' (' + method + ' ' + number + ')' +
        (reference ? ' for account ' + reference : '') + '. No real money moved.',
    };
    const back = reversal && {
      id: reversal.receipt, state: 'reversed', isPaid: true, at: reversal.at,
      text: reversal.receipt + ' Reversed. ' + money(reversal.amount) + ' of ' + receipt +
        ' came back from ' + merchant + '. No real money moved.',
    };
    return [method === 'prompt' ? null : paid, back].filter(Boolean);
  }

  function showMessage({ id, state, isPaid, text }) {
    const known = shownMessages.get(id);
    if (known && known.state === state) return;
    const item = document.createElement('li');
    item.className = isPaid ? 'paid' : 'unpaid';
    const sender = document.createElement('b');
    sender.textContent = 'PRETEND M-PESA';
    item.append(sender, text);
    if (known) known.item.remove();
    messages.prepend(item);
    shownMessages.set(id, { state, item });
  }

  function removeOtherMessages(texts) {
    const currentIds = new Set(texts.map((text) => text.id));
    for (const [id, { item }] of shownMessages) {
      if (currentIds.has(id)) continue;
      item.remove();
      shownMessages.delete(id);
    }
  }

  async function look() {
    try {
      const response = await fetch('simulator/prompts?screen=open&phone=' + phone, { cache: 'no-store' });
      if (!response.ok) throw new Error('status ' + response.status);
      const { now, prompts, payments } = await response.json();
      setText(byId('time'), new Date(now).toLocaleTimeString('en-GB', {
        hour: '2-digit', minute: '2-digit', timeZone: 'Africa/Nairobi',
      }));
      const decided = prompts.filter((prompt) => prompt.state === 'decided');
      const texts = [...decided.map(promptMessage), ...payments.flatMap(paymentMessages)];
      removeOtherMessages(texts);
      for (const text of texts.sort((one, other) => one.at - other.at)) showMessage(text);
      show(prompts.find((prompt) => prompt.state === 'open'), now);
      setText(connection, quietText);
    } catch {
      setText(connection, 'The simulator does not answer. Trying again…');
    }
  }

  async function answer(action, body) {
    if (isSending || shownId === null) return;
    isSending = true;
    for (const button of form.querySelectorAll('button')) button.disabled = true;
    try {
      const response = await fetch('simulator/prompts/' + encodeURIComponent(shownId) + '/' + action, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (!response.ok && response.status !== 409) throw new Error('status ' + response.status);
      await look();
    } catch {
      setProblem('The simulator does not answer. Please try again.');
    } finally {
      isSending = false;
      for (const button of form.querySelectorAll('button')) button.disabled = false;
    }
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (!/^[0-9]{4}$/.test(pin.value)) {
      setProblem('A PIN has four digits.');
      pin.focus();
      return;
    }
    setProblem('');
    answer('pin', { pin: pin.value, appliesRepeatRule: byId('repeat-rule').checked });
  });
  decline.addEventListener('click', () => answer('decline', {}));
  dialog.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') answer('decline', {});
  });

  const handForm = byId('hand-form'), handNumber = byId('hand-number'), handAmount = byId('hand-amount');
  const handReference = byId('hand-reference'), handProblem = byId('hand-problem');

  function showAccount() {
    byId('hand-account').hidden = handNumber.value !== paybill;
  }
  handNumber.addEventListener('change', showAccount);
  showAccount();

  handForm.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = handForm.querySelector('button');
    if (button.disabled) return;
    button.disabled = true;
    setText(handProblem, '');
    try {
      const response = await fetch('simulator/payments', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          phone, number: handNumber.value, amount: handAmount.value.trim(), reference: handReference.value.trim(),
        }),
      });
      const answer = await response.json();
      if (response.ok) {
        handForm.reset();
        showAccount();
        byId('hand').open = false;
        await look();
      } else if (answer.declined) {
        setText(handProblem, 'The shop does not take this payment (' + answer.declined + ').');
      } else {
        setText(handProblem, /^amount/.test(answer.error)
          ? 'The amount is a whole number of shillings.'
          : 'A paybill takes an account of at most 20 characters.');
        (/^amount/.test(answer.error) ? handAmount : handReference).focus();
      }
    } catch {
      setText(handProblem, 'The simulator does not answer. Please try again.');
    } finally {
      button.disabled = false;
    }
  });

  async function poll() {
    await look();
    setTimeout(poll, 1000);
  }
  poll();
})();
`;
