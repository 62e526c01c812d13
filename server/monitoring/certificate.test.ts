import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createCertificateReader } from './certificate.ts';

test('reads when the certificate of the public URL expires, once an hour', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jani-certificate-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
      ...['-keyout', key, '-out', cert, '-subj', '/CN=localhost'],
    ],
    { stdio: 'ignore' },
  );
  let connections = 0;
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) });
  server.on('connection', () => {
    connections += 1;
  });
  rmSync(folder, { recursive: true });
  await new Promise<void>((done) => server.listen(0, 'localhost', done));
  const read = createCertificateReader(`https://localhost:${(server.address() as AddressInfo).port}`);
  const days = (Number(await read()) - Date.now() / 1000) / 86_400;
  expect(days).toBeGreaterThan(1.9);
  expect(days).toBeLessThan(2.1);
  await read();
  expect(connections).toBe(1);
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

test('reads none without HTTPS, or from a URL that cannot be reached', async () => {
  expect(await createCertificateReader('http://localhost:3000')()).toBeNull();
  expect(await createCertificateReader('https://127.0.0.1:1')()).toBeNull();
});
