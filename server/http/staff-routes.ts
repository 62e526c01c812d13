// What the shop's own process answers to staff: which version runs, and the file of a backup.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { RunningVersion } from '../../domain/running-version.ts';
import type { Store } from '../../supabase/store.ts';
import { archiveName } from '../backups/backups.ts';

export interface StaffRoutesOptions {
  version: RunningVersion;
  /** Whether the bearer of an access token is staff whose role has the settings. */
  maySeeVersion(token: string): Promise<boolean>;
  /** Table client with the secret key. */
  tables: Store['tables'];
  /** The folder of the backups. Null with a hosted project, which makes its own. */
  backups: string | null;
}

export interface StaffRoutes {
  serves(pathname: string): boolean;
  /** Never throws. */
  fetch(request: Request): Promise<Response>;
}

const versionPath = '/api/staff/version';
const backupPath = /^\/api\/staff\/backups\/([0-9a-f]{64})$/;
const noStore = { 'cache-control': 'no-store' };

/**
 * Creates the routes.
 *
 * - `GET /api/staff/version` with an access token of staff who may see the settings
 * - `GET /api/staff/backups/{token}`: the file of a backup. A download carries no header, so the token of `allow_backup_download` is in the
 *   URL; it is valid for two minutes. `HEAD` asks whether the file is here.
 */
export function createStaffRoutes({
  version,
  maySeeVersion,
  tables,
  backups,
}: StaffRoutesOptions): StaffRoutes {
  async function sendVersion({ headers }: Request): Promise<Response> {
    const [, token = ''] = /^bearer (\S+)$/i.exec(headers.get('authorization') ?? '') ?? [];
    if (token === '' || !(await maySeeVersion(token))) {
      return Response.json({ error: 'Only staff may do this' }, { status: 403, headers: noStore });
    }
    return Response.json(version, { headers: noStore });
  }

  async function sendBackup({ method }: Request, token: string): Promise<Response> {
    const { data: name, error } = await tables.rpc('open_backup_download', {
      token,
      is_started: method === 'GET',
    });
    if (error) return plain(503, 'The database does not answer. Please try again.');
    if (name === null) return plain(404, 'This link has expired. Please press Download again.');
    const path = backups !== null && archiveName.test(name) ? join(backups, name) : null;
    const size = path && (await stat(path).catch(() => null))?.size;
    if (!path || !size) return plain(410, `${name} is not on the disk of this server any more.`);
    // Sent chunk by chunk, as fast as the client reads it.
    const body = method === 'GET' ? (Readable.toWeb(createReadStream(path)) as ReadableStream) : null;
    return new Response(body, {
      headers: {
        ...noStore,
        'content-type': 'application/gzip',
        'content-length': String(size),
        'content-disposition': `attachment; filename="${name}"`,
      },
    });
  }

  return {
    serves: (pathname) => pathname === versionPath || backupPath.test(pathname),
    async fetch(request) {
      const { pathname } = new URL(request.url);
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return plain(405, 'Only GET is answered here');
      try {
        const [, token] = backupPath.exec(pathname) ?? [];
        return token === undefined ? await sendVersion(request) : await sendBackup(request, token);
      } catch {
        return plain(503, 'The shop cannot answer this now. Please try again.');
      }
    },
  };
}

const plain = (status: number, text: string) =>
  new Response(`${text}\n`, { status, headers: { ...noStore, 'content-type': 'text/plain; charset=utf-8' } });
