import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { createServer as createHttpServer, type IncomingHttpHeaders } from 'node:http';
import { createServer as createTcpServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Mail, TextMessage } from '@jani-juice/backend';
import pino from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createMessages, type MessagesConfig, SendError } from './messages.ts';

const mail: Mail = {
  to: 'amina@jani.example',
  subject: 'Reset your password',
  text: 'Follow this link: https://jani.example/x?token=abc',
  kind: 'recovery',
};
const text: TextMessage = { to: '254712345678', text: 'Your code is 123456', kind: 'otp', channel: 'sms' };

let folder: string;
let closers: (() => Promise<unknown>)[];
let logged: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'jani-outbox-'));
  closers = [() => rm(folder, { recursive: true })];
  logged = '';
});
afterEach(async () => {
  for (const close of closers) await close();
});

const messagesWith = (config: Partial<MessagesConfig>) =>
  createMessages(
    {
      smtpUrl: null,
      mailFrom: 'Jani Juice <hello@jani.example>',
      sms: null,
      outbox: join(folder, 'outbox'),
      outboxDays: 30,
      ...config,
    },
    pino(
      {},
      {
        write: (line: string) => {
          logged += line;
        },
      },
    ),
  );
const listening = async (server: Server): Promise<number> => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  closers.push(() => new Promise((done) => server.close(done)));
  const address = server.address();
  return address && typeof address === 'object' ? address.port : 0;
};

/** A mail server that accepts and stores everything; `refusal` is its response to recipients, `end` to the whole email. */
async function mailServer(refusal?: string, end?: string): Promise<{ url: string; received: string[] }> {
  const received: string[] = [];
  const server = createTcpServer((socket) => {
    let isData = false;
    let rest = '';
    socket.write('220 here\r\n');
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      rest += chunk.toString();
      for (let stop = rest.indexOf('\r\n'); stop >= 0; stop = rest.indexOf('\r\n')) {
        const line = rest.slice(0, stop);
        rest = rest.slice(stop + 2);
        received.push(line);
        if (isData) {
          if (line !== '.') continue;
          isData = false;
          if (end === 'disconnects') socket.destroy();
          else socket.write(`${end ?? '250 accepted'}\r\n`);
        } else if (line === 'DATA') {
          isData = true;
          socket.write('354 go on\r\n');
        } else if (line.startsWith('RCPT') && refusal) socket.write(`${refusal}\r\n`);
        else if (line === 'QUIT') socket.end('221 bye\r\n');
        else socket.write('250 ok\r\n');
      }
    });
  });
  return { url: `smtp://127.0.0.1:${await listening(server)}`, received };
}

interface GatewayRequest {
  headers: IncomingHttpHeaders;
  body: URLSearchParams;
}
/** A text message gateway with one fixed response. */
async function gateway(
  status: number,
  answer: unknown,
): Promise<{ url: string; requests: GatewayRequest[] }> {
  const requests: GatewayRequest[] = [];
  const server = createHttpServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      requests.push({ headers: request.headers, body: new URLSearchParams(body) });
      response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
      response.end(JSON.stringify(answer));
    });
  });
  return { url: `http://127.0.0.1:${await listening(server)}/version1/messaging`, requests };
}
const recipients = (statusCode: number, status: string) => ({
  SMSMessageData: {
    Message: 'Sent to 1/1',
    Recipients: [{ statusCode, status, number: '+254712345678', messageId: 'ATXid_1' }],
  },
});

test('sends an email over SMTP to its one recipient', async () => {
  const server = await mailServer();
  await messagesWith({ smtpUrl: server.url }).sendMail(mail);
  expect(server.received).toContain('RCPT TO:<amina@jani.example>');
  expect(server.received).toContain('Subject: Reset your password');
  expect(server.received.filter((line) => line.startsWith('RCPT'))).toHaveLength(1);
});

test('sends nothing to a second address inside the recipient', async () => {
  const server = await mailServer();
  const to = 'amina@jani.example, eve@evil.example';
  await messagesWith({ smtpUrl: server.url })
    .sendMail({ ...mail, to })
    .catch(() => {});
  const recipients = server.received.filter((line) => line.startsWith('RCPT'));
  expect(recipients.filter((line) => line.includes('<eve@evil.example>'))).toEqual([]);
});

test('fails when the mail server rejects the recipient', async () => {
  const server = await mailServer('550 no such person');
  await expect(messagesWith({ smtpUrl: server.url }).sendMail(mail)).rejects.toThrow('550');
});

const outcomeOf = (attempt: Promise<unknown>): Promise<unknown> =>
  attempt.then(
    () => 'sent',
    (error: unknown) => (error instanceof SendError ? error.outcome : error),
  );

test.each([
  ['550 no such person', undefined, 'failed'],
  ['450 try later', undefined, 'refused'],
  [undefined, '554 spam', 'failed'],
  [undefined, '451 try later', 'refused'],
  // The server received the whole email, so it may have accepted it.
  [undefined, 'disconnects', 'unsure'],
])(
  'with the response %j to the recipient and %j to the email, the outcome is %s',
  async (refusal, end, outcome) => {
    const server = await mailServer(refusal, end);
    expect(await outcomeOf(messagesWith({ smtpUrl: server.url }).sendMail(mail))).toBe(outcome);
  },
);

test('an unreachable mail server or gateway is a temporary error', async () => {
  const server = createTcpServer();
  const port = await listening(server);
  await closers.pop()?.();
  const url = `http://127.0.0.1:${port}`;
  expect(await outcomeOf(messagesWith({ smtpUrl: `smtp://127.0.0.1:${port}` }).sendMail(mail))).toBe(
    'refused',
  );
  const sms = { username: 'jani', apiKey: 'key', sender: undefined, url };
  expect(await outcomeOf(messagesWith({ sms }).sendText(text))).toBe('refused');
});

test('an email with an unsubscribe URL has List-Unsubscribe headers', async () => {
  const server = await mailServer();
  const messages = messagesWith({ smtpUrl: server.url });
  const unsubscribeUrl = 'https://jani.example/newsletter/unsubscribe?token=a1';
  await messages.sendMail({ ...mail, unsubscribeUrl });
  expect(server.received).toContain(`List-Unsubscribe: <${unsubscribeUrl}>`);
  expect(server.received).toContain('List-Unsubscribe-Post: List-Unsubscribe=One-Click');
  server.received.splice(0);
  await messages.sendMail(mail);
  expect(server.received.filter((line) => line.startsWith('List-'))).toEqual([]);
});

test('an email has its Message-ID', async () => {
  const server = await mailServer();
  await messagesWith({ smtpUrl: server.url }).sendMail({ ...mail, messageId: '<one@jani.example>' });
  expect(server.received).toContain('Message-ID: <one@jani.example>');
});

test.each([
  [201, recipients(403, 'InvalidPhoneNumber'), 'failed'],
  [201, recipients(405, 'InsufficientBalance'), 'refused'],
  [429, '', 'refused'],
  [503, '', 'refused'],
  [500, '', 'unsure'],
  [504, '', 'unsure'],
])('with the gateway response %d %j, the outcome is %s', async (status, answer, outcome) => {
  const { url } = await gateway(status, answer);
  const sms = { username: 'jani', apiKey: 'key', sender: undefined, url };
  expect(await outcomeOf(messagesWith({ sms }).sendText(text))).toBe(outcome);
});

test('the outcome is unknown when the gateway disconnects', async () => {
  const server = createHttpServer((request) => request.socket.destroy());
  const url = `http://127.0.0.1:${await listening(server)}`;
  const sms = { username: 'jani', apiKey: 'key', sender: undefined, url };
  expect(await outcomeOf(messagesWith({ sms }).sendText(text))).toBe('unsure');
});

test('sends a text message to the gateway with the credentials and the sender', async () => {
  const { url, requests } = await gateway(201, recipients(101, 'Success'));
  const messages = messagesWith({ sms: { username: 'jani', apiKey: 'key', sender: 'JANI', url } });
  expect(await messages.sendText(text)).toEqual({ messageId: 'ATXid_1' });
  expect(requests).toHaveLength(1);
  expect(requests[0]?.headers.apikey).toBe('key');
  expect(Object.fromEntries(requests[0]?.body ?? [])).toEqual({
    username: 'jani',
    to: '+254712345678',
    message: 'Your code is 123456',
    from: 'JANI',
  });
});

test.each([
  [201, recipients(403, 'InvalidPhoneNumber'), 'InvalidPhoneNumber'],
  [201, { SMSMessageData: { Message: 'InvalidSenderId', Recipients: [] } }, 'InvalidSenderId'],
  [401, 'The supplied authentication is invalid', '401'],
])('fails with the gateway response %d %j', async (status, answer, reason) => {
  const { url } = await gateway(status, answer);
  const messages = messagesWith({ sms: { username: 'jani', apiKey: 'key', sender: undefined, url } });
  await expect(messages.sendText(text)).rejects.toThrow(reason);
});

test('without settings writes both to the outbox folder, readable by the owner only', async () => {
  const messages = messagesWith({});
  await messages.sendMail(mail);
  await messages.sendText(text);
  const outbox = join(folder, 'outbox');
  const files = (await readdir(outbox)).sort();
  expect(files.map((file) => file.split('.').at(-1)).sort()).toEqual(['eml', 'json']);
  const eml = await readFile(join(outbox, files.find((file) => file.endsWith('.eml')) ?? ''), 'utf8');
  expect(eml).toContain('To: amina@jani.example');
  expect(eml).toContain('Follow this link');
  const json = await readFile(join(outbox, files.find((file) => file.endsWith('.json')) ?? ''), 'utf8');
  expect(JSON.parse(json)).toEqual(text);
  for (const file of files) expect((await stat(join(outbox, file))).mode & 0o077).toBe(0);
});

test('logs neither the content of a message nor the full recipient', async () => {
  const messages = messagesWith({});
  await messages.sendMail(mail);
  await messages.sendText(text);
  expect(logged).toContain('a•••@jani.example');
  expect(logged).toContain('•••678');
  expect(logged).not.toMatch(/amina|254712345678|123456|token=abc/);
});
