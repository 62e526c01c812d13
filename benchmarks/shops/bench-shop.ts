// A shop of some commit to measure, with a signed-in staff member, and a stand-in for M-PESA.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openShop, until } from '../../scripts/tests/open-shop.ts';
import { type StandInMpesa, startStandInMpesa } from './stand-in-mpesa.ts';

/** A built project: this one, or that of another commit. */
export interface Build {
  /** `work tree`, or the commit. */
  name: string;
  /** Its folder. */
  root: string;
}

export interface BenchShop {
  build: Build;
  url: string;
  pid: number;
  mpesa: StandInMpesa;
  asVisitor: Record<string, string>;
  asStaff: Record<string, string>;
  asOwner: Record<string, string>;
  /** Calls the shop as a caller of a random network. Throws unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes.
  call(method: string, path: string, headers: Record<string, string>, body?: unknown): Promise<any>;
  count(path: string): Promise<number>;
  close(): Promise<void>;
}

export const staff = { email: 'owner@jani.example', password: 'correct horse battery' };
/** The product that is ordered, which never runs out. */
export const product = { id: 'bbbbbbbb-0000-4000-8000-00000000000b', slug: 'bench', price: 95_000 };
/** A product of the seed. */
export const slug = 'mango-bottle';

const randomByte = () => Math.floor(Math.random() * 256);
/** An IP address of a customer. Few of them share a network. */
export const customerAddress = () => `${11 + (randomByte() % 89)}.${randomByte()}.${randomByte()}.7`;

/**
 * Opens a shop, and adds the product once.
 * @param dataDir its folder, not deleted here
 * @param databaseUrl Default: an embedded database in the folder
 */
export async function openBenchShop(build: Build, dataDir: string, databaseUrl?: string): Promise<BenchShop> {
  const mpesa = await startStandInMpesa();
  const settings = {
    ...(databaseUrl ? { DATABASE_URL: databaseUrl } : { DATABASE_URL: '' }),
    SIMULATOR_PORT: String(mpesa.port),
    TRUSTED_PROXIES: '1',
    ADMIN_EMAIL: staff.email,
    ADMIN_PASSWORD: staff.password,
    BACKUPS: 'off',
  };
  const shop = await openShop(settings, { fromNothing: true, dataDir, root: build.root });
  const { publishable, secret } = await shop.keys();
  const asVisitor = { apikey: publishable };
  const asOwner = { apikey: secret };

  const request = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const send = () =>
      fetch(`${shop.url}${path}`, {
        method,
        headers: { 'content-type': 'application/json', 'x-forwarded-for': customerAddress(), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    // The shop may just have closed the idle connection.
    const answer = await send().catch(send);
    if (!answer.ok) throw new Error(`${build.name}: ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const call: BenchShop['call'] = async (...given) => {
    const text = await (await request(...given)).text();
    return text === '' ? null : JSON.parse(text);
  };

  let token = '';
  // The shop creates the first account while it starts.
  await until(async () => {
    const session = await call('POST', '/auth/v1/token?grant_type=password', asVisitor, staff);
    token = session.access_token;
    return true;
  }, 'the first account exists');
  const opened: BenchShop = {
    build,
    url: shop.url,
    pid: shop.pid() ?? Number.NaN,
    mpesa,
    asVisitor,
    asStaff: { ...asVisitor, authorization: `Bearer ${token}` },
    asOwner,
    call,
    async count(path) {
      const answer = await request('HEAD', path, { ...asOwner, prefer: 'count=exact' });
      return Number(answer.headers.get('content-range')?.split('/')[1]);
    },
    async close() {
      await shop.close();
      await mpesa.close();
    },
  };
  if ((await opened.count(`/rest/v1/products?id=eq.${product.id}`)) === 0) {
    const added = { ...product, name: 'Bench', stock_quantity: 1_000_000 };
    await call('POST', '/rest/v1/products', asOwner, added);
  }
  return opened;
}

/** Memory of a process in MB: resident now, and its peak (Linux). */
export async function memoryOf(pid: number): Promise<{ residentMb: number; peakMb: number }> {
  const status = await readFile(join('/proc', String(pid), 'status'), 'utf8');
  const mb = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024;
  return { residentMb: mb('VmRSS'), peakMb: mb('VmHWM') };
}

/** Processor seconds of all threads of a process, or of its children that have ended; Linux counts in hundredths. */
export async function processorSecondsOf(pid: number, of: 'itself' | 'ended children' = 'itself') {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The program's name, in brackets before it, may contain spaces.
  const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
  const first = of === 'itself' ? 11 : 13;
  return (Number(fields[first]) + Number(fields[first + 1])) / 100;
}
