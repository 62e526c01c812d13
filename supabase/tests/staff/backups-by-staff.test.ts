// What staff do with backups: check one once more, and download it by a URL that is valid for two minutes.
import { testDatabases } from '@jani-juice/backend/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { type Caller, expectRefusal, secondStepPassed } from '../shop-database.ts';
import { setUpShop } from '../steps.ts';

describe.each(testDatabases())('on %s', (kind) => {
  const { database, callAs, asStaff, asService, queryAs, readRow, readValue } = setUpShop(kind);
  let backup: number;
  beforeEach(async () => {
    await database.execute(
      'delete from private.rate_limits; delete from public.backup_downloads; delete from public.backups',
    );
    await asService('record_backup', {
      started_at: new Date().toISOString(),
      outcome: 'verified',
      file_name: 'jani-2026-11-28T00-00-00Z.tar.gz',
      size: 1234,
    });
    backup = Number(await readValue('select id from public.backups'));
  });
  const allow = (by: Caller = 'staff') => callAs<string>(by, 'allow_backup_download', { backup_id: backup });
  const open = (token: string, is_started = false) =>
    asService<string | null>('open_backup_download', { token, is_started });
  const failedBackup = async () => {
    await asService('record_backup', {
      started_at: new Date().toISOString(),
      outcome: 'failed',
      problem: 'full',
    });
    return Number(await readValue('select max(id) from public.backups'));
  };

  test('a token opens the file, and the download is recorded with the member', async () => {
    const token = await allow();
    expect(token).toMatch(/^[0-9a-f]{64}$/);
    expect(await open(token)).toBe('jani-2026-11-28T00-00-00Z.tar.gz');
    const recorded = () =>
      readRow(
        'select downloaded_by_email, file_name, started_at is not null as is_started from public.backup_downloads',
      );
    const download = {
      downloaded_by_email: 'staff@jani.example',
      file_name: 'jani-2026-11-28T00-00-00Z.tar.gz',
    };
    expect(await recorded()).toEqual({ ...download, is_started: false });
    expect(await open(token, true)).not.toBeNull();
    expect(await recorded()).toEqual({ ...download, is_started: true });
    // The token is nowhere in the database.
    expect(await readValue('select token_hash from public.backup_downloads')).not.toBe(token);
  });

  test('a token opens nothing after two minutes, nor does another one', async () => {
    const token = await allow();
    await database.execute(
      `update public.backup_downloads set allowed_at = now() - interval '3 minutes' where true`,
    );
    expect(await open(token)).toBeNull();
    expect(await open('0'.repeat(64))).toBeNull();
    expect(await open('')).toBeNull();
  });

  test('a member with a second factor passed it within five minutes', async () => {
    const passed = (secondsAgo: number, method = 'totp') => ({
      ...secondStepPassed,
      amr: [
        { method: 'password', timestamp: Math.floor(Date.now() / 1000) },
        { method, timestamp: Math.floor(Date.now() / 1000) - secondsAgo },
      ],
    });
    await expectRefusal(allow(secondStepPassed), 403, 'second_factor_needed');
    await expectRefusal(allow(passed(600)), 403, 'second_factor_needed');
    await expectRefusal(allow(passed(10, 'otp')), 403, 'second_factor_needed');
    expect(await allow(passed(10))).toMatch(/^[0-9a-f]{64}$/);
    expect(await allow(passed(10, 'mfa/webauthn'))).toMatch(/^[0-9a-f]{64}$/);
  });

  test('others neither download nor check one, and staff do not see the tokens', async () => {
    for (const by of ['customer', 'former staff', 'half-way staff'] as const) {
      await expectRefusal(allow(by), 403, 'staff_only');
      await expectRefusal(callAs(by, 'request_backup_check', { backup_id: backup }), 403, 'staff_only');
    }
    await allow();
    await expect(queryAs('staff', 'select token_hash from public.backup_downloads')).rejects.toThrow(
      'permission denied',
    );
    const { rows } = await queryAs('staff', 'select file_name from public.backup_downloads');
    expect(rows).toHaveLength(1);
  });

  test('a backup without a file is neither downloaded nor checked', async () => {
    backup = await failedBackup();
    await expectRefusal(allow(), 404, 'backup_not_found');
    await expectRefusal(asStaff('request_backup_check', { backup_id: backup }), 404, 'backup_not_found');
  });

  test('a check is asked for, and its outcome is stored', async () => {
    const checkOf = () =>
      readRow(
        `select check_requested_at is not null as is_requested, checked_at is not null as is_checked, check_problem
         from public.backups where id = $1`,
        [backup],
      );
    await asStaff('request_backup_check', { backup_id: backup });
    expect(await checkOf()).toEqual({ is_requested: true, is_checked: false, check_problem: null });
    await asService('record_backup_check', { backup_id: backup, problem: 'The archive is damaged' });
    expect(await checkOf()).toMatchObject({ is_checked: true, check_problem: 'The archive is damaged' });
    await asService('record_backup_check', { backup_id: backup });
    expect(await checkOf()).toMatchObject({ is_checked: true, check_problem: null });
  });

  test('downloads and checks are limited for all staff together', async () => {
    for (let count = 0; count < 20; count += 1) await allow();
    await expectRefusal(allow(), 429, 'too_many_downloads');
    for (let count = 0; count < 5; count += 1) await asStaff('request_backup_check', { backup_id: backup });
    await expectRefusal(asStaff('request_backup_check', { backup_id: backup }), 429, 'too_many_backups');
  });
});
