// The script of the rider's page: keeps what was pressed until it was sent, and follows changes.

/**
 * Runs in the browser, inlined as text (`rider-document.tsx`): it uses nothing from outside its body. Without it the page works by posting
 * its forms, and a browser that cannot read its syntax does the same.
 */
export function startRide(): void {
  interface Waiting {
    key: string;
    job: string;
    step: string;
    body: string;
    label: string;
    at: number;
  }
  const pollMs = 15_000;
  const retryMs = [2_000, 5_000, 15_000, 30_000];
  const timeoutMs = 20_000;
  const doubleTapMs = 500;
  // A shift: what is older cannot be sent any more, because its order was finished by others.
  const maxAgeMs = 16 * 3_600_000;
  // Of the rider, not of the link: what waits at the end of a link is sent with the next one.
  const storageKey = `ride-${document.body.dataset.rider}`;
  const main = document.querySelector('main') as HTMLElement;
  const notes = document.getElementById('notes') as HTMLElement;
  const announcement = document.getElementById('announcement') as HTMLElement;
  const line = document.getElementById('line') as HTMLElement;
  // Where storage is disabled or full, what was pressed waits while the page is open.
  let memory: Waiting[] = [];
  let isStoring = true;
  // Why the last press of a job was refused.
  const refusals: Record<string, string> = {};
  let isSending = false;
  let failures = 0;
  let isTouched = false;
  let hasEnded = false;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let ending: ReturnType<typeof setTimeout> | undefined;

  function waiting(): Waiting[] {
    try {
      if (isStoring) memory = JSON.parse(localStorage.getItem(storageKey) || '[]');
    } catch {
      isStoring = false;
    }
    return memory;
  }
  function keep(list: Waiting[]): void {
    memory = list;
    try {
      if (list.length > 0) localStorage.setItem(storageKey, JSON.stringify(list));
      else localStorage.removeItem(storageKey);
      isStoring = true;
    } catch {
      isStoring = false;
    }
  }
  const clock = (at: number) => new Date(at).toTimeString().slice(0, 5);
  const articles = () => Array.from(main.querySelectorAll<HTMLElement>('article[data-job]'));

  function removeNotes(job: string): void {
    for (const old of Array.from(notes.children)) if ((old as HTMLElement).dataset.job === job) old.remove();
  }
  function note(text: string, isBad: boolean, job = ''): void {
    if (job) removeNotes(job);
    const box = document.createElement('p');
    box.className = isBad ? 'note bad' : 'note';
    box.dataset.job = job;
    box.append(text, ' ');
    const close = document.createElement('button');
    close.type = 'button';
    close.textContent = 'OK';
    close.onclick = () => box.remove();
    box.append(close);
    notes.append(box);
    if (isBad) box.scrollIntoView({ block: 'nearest' });
  }

  /** Shows what waits, as if it had been sent. */
  function show(): void {
    const list = waiting();
    for (const article of articles()) {
      const own = list.filter(({ job }) => job === article.dataset.job);
      const last = own[own.length - 1];
      const status = last ? last.step : article.dataset.status;
      for (const part of Array.from(article.querySelectorAll<HTMLElement>('[data-from]'))) {
        part.hidden = !(part.dataset.from as string).split(' ').includes(status as string);
      }
      if (last)
        for (const part of Array.from(article.querySelectorAll<HTMLDetailsElement>('[data-open-in]')))
          if (part.dataset.openIn === status) part.open = true;
      const sign = article.querySelector<HTMLElement>('.waiting') as HTMLElement;
      sign.hidden = !last;
      sign.textContent = last ? `${last.label}: pressed ${clock(last.at)}, waits to be sent` : '';
      const box = article.querySelector<HTMLElement>('.refused[data-of]');
      const refusal = refusals[article.dataset.job as string];
      if (!box) continue;
      box.hidden = !refusal;
      if (box.textContent !== (refusal || '')) box.textContent = refusal || '';
    }
    line.hidden = list.length === 0 && failures === 0;
    line.textContent =
      list.length > 0
        ? `${failures > 0 ? 'No network. ' : ''}${list.length} ${list.length === 1 ? 'press waits' : 'presses wait'} to be sent. Nothing is lost.`
        : `No network. This is the state of ${document.body.dataset.read}.`;
  }

  /**
   * Replaces the list, without what is being typed.
   * @param press that the list answers
   */
  function replace(html: string, press?: Waiting): void {
    const page = new DOMParser().parseFromString(html, 'text/html');
    const next = page.querySelector('main');
    if (!next) return;
    const isGone = page.body.dataset.ended !== undefined;
    const typed: Record<string, string | boolean> = {};
    const nameOf = (field: Element) => {
      const form = field.closest('form');
      return form
        ? `${form.id} ${(field as HTMLInputElement).name} ${(field as HTMLInputElement).type === 'radio' ? (field as HTMLInputElement).value : ''}`
        : '';
    };
    const fields = () => Array.from(main.querySelectorAll<HTMLInputElement>('form input:not([type=hidden])'));
    for (const field of fields())
      typed[nameOf(field)] = /radio|checkbox/.test(field.type) ? field.checked : field.value;
    const focused = document.activeElement ? nameOf(document.activeElement) : '';
    const openParts = Array.from(main.querySelectorAll('details[open]')).map(({ id }) => id);
    const before = articles().filter(({ dataset }) => dataset.status !== 'done');
    const { press: said, bad, done, job: pressed = '', retype } = page.body.dataset;
    const isRetyped = (field: HTMLInputElement) =>
      field.name === retype && field.closest<HTMLElement>('article')?.dataset.job === pressed;
    main.replaceChildren(...Array.from(next.childNodes));
    for (const field of fields()) {
      const value = isRetyped(field) ? undefined : typed[nameOf(field)];
      if (typeof value === 'string') field.value = value;
      else if (value !== undefined) field.checked = value;
      if (focused && nameOf(field) === focused) field.focus();
    }
    for (const id of openParts)
      (document.getElementById(id) as HTMLDetailsElement | null)?.setAttribute('open', '');
    document.title = page.title;
    document.body.dataset.read = page.body.dataset.read;
    document.body.dataset.left = page.body.dataset.left;
    if (!isGone)
      for (const { dataset } of before) {
        const job = dataset.job as string;
        const now = articles().find((article) => article.dataset.job === job)?.dataset;
        if (job === pressed || now?.status === dataset.status) continue;
        delete refusals[job];
        if (!now) note(`${dataset.number} was taken off your list. Ask the shop.`, true, job);
        else if (now.end) note(now.end, now.bad !== undefined, job);
      }
    if (said && press) answer(said, bad !== undefined, done !== undefined, press);
    if (isGone) end();
    else endInTime();
  }

  /** Reports a press: a refused one in its job, if that is still to be done. */
  function answer(said: string, isBad: boolean, isDone: boolean, { job, label }: Waiting): void {
    delete refusals[job];
    removeNotes(job);
    if (!isBad) for (const old of Array.from(notes.querySelectorAll('.note:not(.bad)'))) old.remove();
    const article = articles().find(({ dataset }) => dataset.job === job && dataset.status !== 'done');
    // Its card shows the new state, and a note above would move the next button.
    announcement.textContent = article ? said : '';
    if (article && isDone) return;
    if (!isBad || !article) {
      const number = label.split(' ')[0] as string;
      note(said.includes(number) ? said : `${label}: ${said}`, isBad, job);
      return;
    }
    const locked = article.querySelector('.locked');
    if (!locked) refusals[job] = said;
    show();
    const field = article.querySelector<HTMLInputElement>('[name=code]');
    if (field && !field.value && document.activeElement === document.body) field.focus();
    (locked || article.querySelector('.refused'))?.scrollIntoView({ block: 'nearest' });
  }

  /** The link has ended: what still waits is sent with the next link. */
  function end(): void {
    hasEnded = true;
    for (const { label, at } of waiting())
      note(`Not sent yet: ${label}, pressed ${clock(at)}. It is sent when you open a new link.`, true);
    clearTimeout(retry);
    line.hidden = true;
  }

  /** Without a network the page ends by itself. */
  function endInTime(): void {
    clearTimeout(ending);
    ending = setTimeout(
      () => {
        const box = document.createElement('p');
        box.textContent = 'This link has ended. Ask the shop for a new one.';
        main.replaceChildren(box);
        end();
        if ('caches' in window)
          void caches.open('ride-1').then(
            (cache) => cache.delete(location.pathname),
            () => {},
          );
      },
      Math.min(Number(document.body.dataset.left) * 1000, 2 ** 31 - 1),
    );
  }

  /** Stores the page for when there is no network (`ride-worker.ts`). */
  function install(): void {
    try {
      const { serviceWorker } = navigator;
      if (!serviceWorker || serviceWorker.controller) return;
      // It stores what it fetches.
      serviceWorker.addEventListener('controllerchange', () => void ask(null).catch(() => {}), {
        once: true,
      });
      serviceWorker.register('/ride-worker.js', { scope: '/ride/' }).catch(() => {});
    } catch {}
  }

  /**
   * Fails without an answer of this page: another request was changing the delivery, the server is busy or being updated, or the answer
   * comes from somewhere else, such as the sign-in page of a public network.
   * @param body of a press; null for the whole page
   */
  async function ask(body?: string | null): Promise<{ html: string; kind: string }> {
    const control = new AbortController();
    const timer = setTimeout(() => control.abort(), timeoutMs);
    try {
      const response = await fetch(location.pathname, {
        method: body ? 'POST' : 'GET',
        headers: {
          ...(body === null ? {} : { 'x-ride-part': '1' }),
          ...(body ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
        },
        body: body ?? null,
        cache: 'no-store',
        credentials: 'omit',
        signal: control.signal,
      });
      const html = await response.text();
      const { rider, ended, refused } = new DOMParser().parseFromString(html, 'text/html').body.dataset;
      if (ended !== undefined) return { html, kind: 'ended' };
      if (refused !== undefined) return { html, kind: 'refused' };
      if (rider === document.body.dataset.rider) return { html, kind: 'list' };
      throw new Error(`no answer (${response.status})`);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends what waits, one press after the other. */
  async function send(): Promise<void> {
    if (isSending || hasEnded) return;
    isSending = true;
    clearTimeout(retry);
    try {
      for (let first = waiting()[0]; first && !hasEnded; first = waiting()[0]) {
        const age = Math.max(0, Math.floor((Date.now() - first.at) / 1000));
        const { html, kind } = await ask(`${first.body}&age=${age}`);
        const { key } = first;
        if (kind !== 'ended') keep(waiting().filter((press) => press.key !== key));
        failures = 0;
        if (kind !== 'refused') replace(html, first);
        else note(`Not saved: ${first.label}. Call the shop.`, true, first.job);
        show();
      }
    } catch {
      failures += 1;
      retry = setTimeout(send, retryMs[Math.min(failures, retryMs.length) - 1]);
    }
    isSending = false;
    if (!hasEnded) show();
  }

  async function poll(): Promise<void> {
    if (hasEnded || isSending || document.visibilityState === 'hidden') return;
    if (waiting().length > 0) return send();
    isSending = true;
    try {
      const { html, kind } = await ask(isTouched ? 'step=seen' : undefined);
      isTouched = false;
      failures = 0;
      // A press of the meantime is newer than this answer.
      if (waiting().length === 0 && kind !== 'refused') replace(html);
    } catch {
      failures += 1;
    }
    isSending = false;
    if (hasEnded) return;
    show();
    if (waiting().length > 0) void send();
  }

  addEventListener('pointerdown', () => {
    isTouched = true;
  });
  document.addEventListener('submit', (event) => {
    const form = event.target as HTMLFormElement;
    const article = form.closest<HTMLElement>('article[data-job]');
    if (!article || hasEnded) return;
    event.preventDefault();
    // The button of the next step is where this one was.
    main.style.pointerEvents = 'none';
    setTimeout(() => {
      main.style.pointerEvents = '';
    }, doubleTapMs);
    const body = new URLSearchParams();
    for (const [name, value] of Array.from(new FormData(form))) body.append(name, String(value));
    const key = body.get('key') as string;
    const list = waiting();
    if (list.some((press) => press.key === key)) return;
    const step = body.get('step') as string;
    const job = article.dataset.job as string;
    const label = `${article.dataset.number} ${form.dataset.label as string}`;
    keep([...list, { key, job, step, body: String(body), label, at: Date.now() }]);
    removeNotes(job);
    delete refusals[job];
    show();
    void send();
  });
  // Another tab has pressed or sent.
  addEventListener('storage', () => {
    if (!hasEnded) show();
  });
  addEventListener('online', () => void poll());
  addEventListener('offline', () => {
    failures = Math.max(failures, 1);
    if (!hasEnded) show();
  });
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted) void poll();
  });
  document.addEventListener('visibilitychange', () => void poll());
  setInterval(() => void poll(), pollMs);
  const old = waiting().filter(({ at }) => Date.now() - at > maxAgeMs);
  for (const { label, at } of old) note(`Not sent: ${label}, pressed ${clock(at)}. Call the shop.`, true);
  if (old.length > 0) keep(waiting().filter((press) => !old.includes(press)));
  // What the stored page says about a press is over.
  if (document.body.dataset.stored !== undefined) {
    failures = 1;
    notes.replaceChildren();
  } else
    for (const { dataset, textContent } of Array.from(
      main.querySelectorAll<HTMLElement>('.refused[data-of]:not([hidden])'),
    ))
      refusals[dataset.of as string] = textContent as string;
  endInTime();
  install();
  show();
  if (failures > 0) void poll();
  else void send();
}
