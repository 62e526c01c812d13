// Puts a server under load with wrk, as visitors of many networks do.
import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Requests of one kind. In `path` and `body`, `{8}` stands for eight digits that differ each time. */
export interface Requests {
  method?: 'GET' | 'POST';
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** Concurrent ones. Default: 16. */
  connections?: number;
}

/**
 * Loads a server. Requests come from different /24 networks (`x-forwarded-for`, which a shop reads with TRUSTED_PROXIES=1).
 * @returns requests per second
 * @throws when wrk is missing, or after a response other than 2xx
 */
export async function load(url: string, requests: Requests, seconds: number): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'jani-load-'));
  try {
    const script = join(folder, 'requests.lua');
    await writeFile(script, scriptOf(requests));
    const connections = `-c${requests.connections ?? 16}`;
    const { stdout, stderr } = await run('wrk', [
      ...['--timeout', '10s', '-t1', connections, `-d${seconds}s`, '-s', script, url],
    ]);
    // A faulty script is only reported on standard error.
    if (stderr !== '' || /Non-2xx|Socket errors/.test(stdout))
      throw new Error(`${url}${requests.path} failed under load:\n${stdout}${stderr}`);
    return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Equal requests are made before the load, so that wrk takes little of the processor. */
function scriptOf({ method = 'GET', path, headers = {}, body = '' }: Requests): string {
  const isVaried = /\{\d+\}/.test(path + body);
  const text = (value: string) => `[==[${value}]==]`;
  return `
math.randomseed(${randomInt(2 ** 31)})
local function digits(count)
  local text = ''
  for _ = 1, tonumber(count) do text = text .. math.random(0, 9) end
  return text
end
local function vary(text) return (text:gsub('{(%d+)}', digits)) end
local function make()
  return wrk.format('${method}', vary(${text(path)}), {
    ${Object.entries(headers)
      .map(([name, value]) => `[ ${text(name)} ] = ${text(value)},`)
      .join(' ')}
    ['x-forwarded-for'] = math.random(11, 99) .. '.' .. math.random(0, 255) .. '.' .. math.random(0, 255) .. '.' .. math.random(1, 254),
  }, ${body === '' ? 'nil' : `vary(${text(body)})`})
end
local made, sent = {}, 0
function init() for index = 1, ${isVaried ? 0 : 1000} do made[index] = make() end end
function request()
  sent = sent + 1
  return made[sent % 1000 + 1] or make()
end`;
}
