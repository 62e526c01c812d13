import { expect, test } from 'vitest';
import type { OpenJob, Ride } from '../../domain/deliveries/rider-page.ts';
import { colourPairs, colours } from './ride-colours.ts';
import { renderClosed, renderRide } from './ride-document.tsx';
import { loader as loadWorker } from './ride-worker-route.ts';

const open: OpenJob = {
  id: '6f1c3f0e-0000-4000-8000-000000000001',
  order_number: 'ORD-1042',
  status: 'picked_up',
  items: [{ name: 'Coconut Lime, Meru Gold', quantity: 2 }],
  first_name: 'Amina',
  name: 'Amina <b>Kamau</b>',
  phone: '+254712345678',
  address: 'Westlands, Building: Delta, Unit: B12',
  city: 'Nairobi',
  area: null,
  map_point: null,
  promised_at: null,
  customer_notes: '</script><script>alert(1)</script>',
  notes: null,
  cash_cents: null,
  asks_code: true,
  tries_left: 5,
};
const ride: Ride = {
  link_id: '6f1c3f0e-0000-4000-8000-000000000002',
  rider_id: '6f1c3f0e-0000-4000-8000-000000000003',
  expires_at: '2026-11-28T18:00:00Z',
  now: '2026-11-28T09:00:00Z',
  name: 'Brian',
  shop: { name: 'Jani Juice', phone: '+254700000000', chat_phone: '+254700000000' },
  jobs: [open],
};
let keys = 0;
const render = (change: Partial<Ride>, hasScript = true) =>
  renderRide({ ...ride, ...change }, { newKey: () => `key-${++keys}`, hasScript });

test('a page with thirty deliveries and its service worker are below 60 kB, and the script is in it once', async () => {
  const html = render({
    jobs: Array.from({ length: 30 }, (_, index) => ({ ...open, id: `${open.id.slice(0, -2)}${10 + index}` })),
  });
  const stream = new Blob([html]).stream().pipeThrough(new CompressionStream('gzip'));
  expect((await new Response(stream).arrayBuffer()).byteLength).toBeLessThan(15_000);
  expect(render({}).length + (await loadWorker().text()).length).toBeLessThan(60_000);
  expect(html.match(/<script/g)).toHaveLength(1);
  expect(render({}, false)).not.toContain('<script');
});

test('what others wrote is text', () => {
  const html = render({});
  expect(html).toContain('Amina &lt;b&gt;Kamau&lt;/b&gt;');
  expect(html).not.toContain('<script>alert');
});

test('each form has a key of its own', () => {
  const found = [...render({}).matchAll(/name="key" value="([^"]+)"/g)].map(([, key]) => key);
  expect(found.length).toBeGreaterThan(2);
  expect(new Set(found).size).toBe(found.length);
});

test('shows PAID, or the cash to collect with its field', () => {
  expect(render({})).toContain('PAID');
  const cash = render({ jobs: [{ ...open, cash_cents: 190_100 }] });
  expect(cash).toContain('CASH KSh 1,901');
  expect(cash).toContain('name="received"');
  expect(cash).not.toContain('PAID<');
});

test('asks for the code only where it is needed, and not after five wrong ones', () => {
  expect(render({})).toContain('name="code"');
  expect(render({ jobs: [{ ...open, asks_code: false }] })).not.toContain('name="code"');
  const locked = render({ jobs: [{ ...open, tries_left: 0 }] });
  expect(locked).not.toContain('name="code"');
  expect(locked).toContain('Five wrong codes');
});

test('names the chosen area once, and leads to the point on the map or to the address', () => {
  const html = render({ jobs: [{ ...open, area: 'Westlands', map_point: '-1.26,36.80' }] });
  expect(html).toContain('<p class="place">Westlands</p><p>Building: Delta, Unit: B12</p>');
  expect(html).toContain('query=-1.26%2C36.80"');
  expect(render({ jobs: [{ ...open, area: 'Kilimani' }] })).toContain(
    '<p class="place">Kilimani</p><p>Westlands, Building: Delta, Unit: B12</p>',
  );
  expect(render({})).toContain('query=Westlands%2C%20Building');
});

test('names the day of a promise that is not for today', () => {
  expect(render({ jobs: [{ ...open, promised_at: '2026-11-28T09:40:00Z' }] })).toContain('by 12:40<');
  expect(render({ jobs: [{ ...open, promised_at: '2026-11-29T09:40:00Z' }] })).toContain(
    'by 12:40 tomorrow<',
  );
});

test('shows what is done at the door on the way, and after a press that was refused', () => {
  const isOpen = /<details id="door-[^>]* open=""/;
  expect(render({})).not.toMatch(isOpen);
  expect(render({ jobs: [{ ...open, status: 'in_transit' }] })).toMatch(isOpen);
  const press = { outcome: 'wrong_code', delivery_id: open.id, tries_left: 4 } as const;
  expect(render({ press })).toMatch(isOpen);
  expect(render({ press: { ...press, outcome: 'done' } })).not.toMatch(isOpen);
});

test('says in the job why a press was refused, and above the list only about a job that is not open', () => {
  const press = {
    outcome: 'wrong_code',
    delivery_id: open.id,
    order_number: 'ORD-1042',
    tries_left: 4,
  } as const;
  const inJob = render({ press });
  expect(inJob).toMatch(/<p class="note bad refused"[^>]*>ORD-1042: wrong code\. [^<]*4 tries left\.<\/p>/);
  expect(inJob.match(/wrong code\. /g)).toHaveLength(2);
  expect(inJob).toContain('data-retype="code"');
  expect(render({})).toMatch(/<p class="note bad refused"[^>]*hidden=""[^>]*><\/p>/);
  const gone = render({ press: { outcome: 'not_yours', delivery_id: 'another' } });
  expect(gone).toContain('aria-live="polite"><p class="note bad">This order is not on your list');
});

test('several deliveries are counted by their step', () => {
  const jobs = [open, { ...open, status: 'assigned' as const }, { ...open, status: 'assigned' as const }];
  expect(render({ jobs })).toContain('<b>3 deliveries</b>: 1 picked up, 2 to pick up');
  expect(render({})).not.toContain('deliveries</b>');
});

test('a cancelled delivery is not said to be with the rider', () => {
  const { id, order_number, items, first_name } = open;
  const done = { id, order_number, items, first_name, status: 'failed', done_at: ride.now } as const;
  const html = render({ jobs: [{ ...done, failure: null, is_cancelled: true }] });
  expect(html).toContain('>Cancelled<');
  expect(html).toContain('12:00 · If you have it, bring it back to the shop');
  expect(html).toContain('data-end="ORD-1042 was cancelled. If you have it, bring it back to the shop."');
});

test('a done delivery has no phone, address or notes', () => {
  const { id, order_number, items, first_name } = open;
  const html = render({
    jobs: [
      {
        id,
        order_number,
        items,
        first_name,
        status: 'failed',
        done_at: '2026-11-28T08:59:00Z',
        failure: 'no_answer',
        is_cancelled: false,
      },
    ],
  });
  expect(html).toContain('11:59 · Phone not answered · Bring it back to the shop');
  expect(html).toContain('data-end="ORD-1042 is set to “Could not deliver” now." data-bad=""');
  for (const hidden of ['254712345678', 'Westlands', 'Kamau', 'maps']) expect(html).not.toContain(hidden);
});

test('a link that has ended shows the phone of the shop and no script', () => {
  const html = renderClosed(
    { title: 'This link has ended', text: 'Ask the shop.', hasEnded: true, isRefused: true },
    ride.shop,
  );
  expect(html).toContain('tel:+254700000000');
  expect(html).toContain('data-ended');
  expect(html).not.toContain('<script');
});

/** Contrast of two colours by WCAG 2.2. */
function contrast(one: string, other: string): number {
  const luminance = (colour: string) => {
    const full = colour.length === 4 ? colour.replace(/[0-9a-f]/g, '$&$&') : colour;
    const [r = 0, g = 0, b = 0] = (full.match(/[0-9a-f]{2}/g) ?? []).map((part) => {
      const share = Number.parseInt(part, 16) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

test.each(colourPairs)('%s on %s is readable in sunlight', (text, background) => {
  expect(contrast(colours[text], colours[background])).toBeGreaterThanOrEqual(7);
});
