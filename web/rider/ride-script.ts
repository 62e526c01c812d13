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
  // A shift: what is older cannot be sent any more, because its order was finished by others.
  const maxAgeMs = 16 * 3_600_000;
  // Of the rider, not of the link: what waits at the end of a link is sent with the next one.
  const storageKey = `ride-${document.body.dataset.rider}`;
  const main = document.querySelector('main') as HTMLElement;
  const notes = document.getElementById('notes') as HTMLElement;
  const line = document.getElementById('line') as HTMLElement;
  // Where storage is disabled, what was pressed waits while the page is open.
  let memory: Waiting[] = [];
  let isSending = false;
  let failures = 0;
  let isTouched = false;
  let hasEnded = false;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let ending: ReturnType<typeof setTimeout> | undefined;

  function waiting(): Waiting[] {
    try {
      memory = JSON.parse(localStorage.getItem(storageKey) || '[]');
    } catch {}
    return memory;
  }
  function keep(list: Waiting[]): void {
    memory = list;
    try {
      if (list.length > 0) localStorage.setItem(storageKey, JSON.stringify(list));
      else localStorage.removeItem(storageKey);
    } catch {}
  }
  const clock = (at: number) => new Date(at).toTimeString().slice(0, 5);
  const articles = () => Array.from(main.querySelectorAll<HTMLElement>('article[data-job]'));

  function note(text: string, isBad: boolean, job = ''): void {
    for (const old of Array.from(notes.children))
      if (job && (old as HTMLElement).dataset.job === job) old.remove();
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
    }
    line.hidden = list.length === 0 && failures === 0;
    line.textContent =
      list.length > 0
        ? `${failures > 0 ? 'No network. ' : ''}${list.length} ${list.length === 1 ? 'press waits' : 'presses wait'} to be sent. Nothing is lost.`
        : `No network. This is the state of ${document.body.dataset.read}.`;
  }

  /** Replaces the list, without what is being typed. */
  function replace(html: string): void {
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
    main.replaceChildren(...Array.from(next.childNodes));
    for (const field of fields()) {
      const value = typed[nameOf(field)];
      if (typeof value === 'string') field.value = value;
      else if (value !== undefined) field.checked = value;
      if (focused && nameOf(field) === focused) field.focus();
    }
    for (const id of openParts)
      (document.getElementById(id) as HTMLDetailsElement | null)?.setAttribute('open', '');
    document.title = page.title;
    document.body.dataset.read = page.body.dataset.read;
    document.body.dataset.left = page.body.dataset.left;
    if (!isGone) {
      const now = articles().map(({ dataset }) => dataset.job);
      for (const { dataset } of before)
        if (!now.includes(dataset.job))
          note(`${dataset.number} was taken off your list. Ask the shop.`, true, dataset.job);
    }
    const said = page.body.dataset.press;
    if (said) note(said, page.body.dataset.bad !== undefined, page.body.dataset.job);
    if (isGone) end();
    else endInTime();
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

  /** @param body of a press; null for the whole page */
  async function ask(body?: string | null): Promise<Response> {
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
      return new Response(html, { status: response.status });
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
        const response = await ask(`${first.body}&age=${age}`);
        // Another request was changing the delivery, the server is busy, or it is being updated.
        if (response.status === 409 || response.status === 429 || response.status >= 500)
          throw new Error('later');
        const { key } = first;
        if (response.status !== 410) keep(waiting().filter((press) => press.key !== key));
        failures = 0;
        if (response.status === 200 || response.status === 410) replace(await response.text());
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
      const response = await ask(isTouched ? 'step=seen' : undefined);
      isTouched = false;
      if (response.status >= 500 || response.status === 429) throw new Error('later');
      failures = 0;
      // A press of the meantime is newer than this answer.
      if (waiting().length === 0 && (response.status === 200 || response.status === 410))
        replace(await response.text());
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
    const body = new URLSearchParams();
    for (const [name, value] of Array.from(new FormData(form))) body.append(name, String(value));
    const key = body.get('key') as string;
    const list = waiting();
    if (list.some((press) => press.key === key)) return;
    const step = body.get('step') as string;
    const label = `${article.dataset.number} ${form.dataset.label as string}`;
    keep([
      ...list,
      { key, job: article.dataset.job as string, step, body: String(body), label, at: Date.now() },
    ]);
    for (const old of Array.from(notes.children))
      if ((old as HTMLElement).dataset.job === article.dataset.job) old.remove();
    show();
    void send();
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
  if (document.body.dataset.stored !== undefined) failures = 1;
  endInTime();
  install();
  show();
  if (failures > 0) void poll();
  else void send();
}
