import { describe, expect, test } from 'vitest';
import { networksOf } from './network.ts';
import { NetworkQuota, NetworkRate } from './network-limits.ts';

const taken = (quota: NetworkQuota, addresses: string[]) =>
  addresses.filter((address) => quota.take(networksOf(address))).length;
const addresses = (write: (n: number) => string, many = 100) =>
  Array.from({ length: many }, (_, n) => write(n));

describe('a quota', () => {
  test('allows an address its allowance, and a wider network twice or eight times as much', () => {
    const quota = () => new NetworkQuota({ perNetwork: 3 });
    expect(
      taken(
        quota(),
        addresses(() => '192.0.2.1'),
      ),
    ).toBe(3);
    expect(
      taken(
        quota(),
        addresses((n) => `192.0.2.${n}`),
      ),
    ).toBe(24);
    expect(
      taken(
        quota(),
        addresses((n) => `2001:db8:1:2::${n}`),
      ),
    ).toBe(3);
    expect(
      taken(
        quota(),
        addresses((n) => `2001:db8:1:a${n.toString(16).padStart(2, '0')}::1`),
      ),
    ).toBe(6);
    expect(
      taken(
        quota(),
        addresses((n) => `2001:db8:1:${n.toString(16)}00::1`),
      ),
    ).toBe(24);
    expect(
      taken(
        quota(),
        addresses((n) => `2001:db8:${n.toString(16)}::1`),
      ),
    ).toBe(100);
  });

  test('has a total limit, which includes clients without an IP address', () => {
    const quota = new NetworkQuota({ perNetwork: 3, inAll: 5 });
    expect(
      taken(
        quota,
        addresses((n) => `2001:db8:${n}::1`),
      ),
    ).toBe(5);
    expect(quota.take([])).toBeNull();
  });

  test('does not count rejected amounts', () => {
    const quota = new NetworkQuota({ perNetwork: 2 });
    expect(
      taken(
        quota,
        addresses(() => '192.0.2.1'),
      ),
    ).toBe(2);
    expect(
      taken(
        quota,
        addresses((n) => `192.0.2.${n + 2}`),
      ),
    ).toBe(14);
  });

  test('frees a returned amount once', () => {
    const quota = new NetworkQuota({ perNetwork: 3 });
    const networks = networksOf('192.0.2.1');
    const giveBack = quota.take(networks, 2);
    quota.take(networks);
    expect(quota.take(networks)).toBeNull();
    giveBack?.();
    // Nothing that another client holds.
    giveBack?.();
    expect(quota.take(networks, 2)).not.toBeNull();
    expect(quota.take(networks)).toBeNull();
  });
});

describe('a rate', () => {
  test('allows a burst, then the rate per second', () => {
    const rate = new NetworkRate({ perNetwork: 10 }, 2);
    const networks = networksOf('192.0.2.1');
    const allowedAt = (now: number) => addresses(String).filter(() => rate.take(networks, 1, now)).length;
    expect([0, 100, 150, 1150, 60_000].map(allowedAt)).toEqual([20, 1, 0, 10, 20]);
  });

  test('allows wider networks twice and eight times as much', () => {
    const rate = () => new NetworkRate({ perNetwork: 3 });
    const allowed = (write: (n: number) => string) => {
      const one = rate();
      return addresses(write).filter((address) => one.take(networksOf(address), 1, 0)).length;
    };
    expect(allowed((n) => `192.0.2.${n}`)).toBe(24);
    expect(allowed((n) => `2001:db8:1:a${n.toString(16).padStart(2, '0')}::1`)).toBe(6);
    expect(allowed((n) => `2001:db8:1:${n.toString(16)}00::1`)).toBe(24);
  });

  test('does not count rejected actions, and never allows more than a whole burst', () => {
    const rate = new NetworkRate({ perNetwork: 5, inAll: 8 });
    const [one, other] = [networksOf('192.0.2.1'), networksOf('198.51.100.1')];
    expect(rate.take(one, 6, 0)).toBe(false);
    expect(rate.take(one, 5, 0)).toBe(true);
    expect(rate.take(other, 4, 0)).toBe(false);
    expect(rate.take(other, 3, 0)).toBe(true);
    expect(rate.take([], 1, 0)).toBe(false);
  });

  test('stores currently active networks only', () => {
    const rate = new NetworkRate({ perNetwork: 1 });
    const networks = (n: number) =>
      networksOf(`2001:db8:${(n >> 8).toString(16)}:${(n & 255).toString(16)}::1`);
    const active = Array.from({ length: 40_000 }, (_, n) => rate.take(networks(n), 0.001, n));
    expect(active.every(Boolean)).toBe(true);
    expect(rate.size).toBeLessThan(25_000);
    const { size } = rate;
    for (let n = 0; n < 1000; n += 1)
      expect(rate.take(networksOf(`2001:db9:${n}::1`), 2, 50_000)).toBe(false);
    expect(rate.size).toBe(size);
  });
});
