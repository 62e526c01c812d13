// Floods below HTTP: tiny WebSocket frames, handshakes, half requests. Each attacker begins again at once when it is disconnected.
import { connect, type Socket } from 'node:net';
import type { Attack, Target } from './target.ts';

/** One client of an attack: connects, and again after each disconnection. */
interface Sender {
  /** Its address on this machine. */
  localAddress: string;
  /** The address that the proxy in front reports. Default: the same. */
  reported?: string | undefined;
}

const bytesPerSecond = 50_000_000;
const intervalMs = 10;
/** Bytes of one write: what a process reads at once. */
const packetBytes = 64 * 1024;
/** Packets of a socket that are not sent yet. */
const maxQueued = 4 * packetBytes;

/** A masked frame, its mask zero. @param first its first byte: 0x80 for the last fragment, and the opcode */
function frameOf(first: number, text = ''): Buffer {
  const bytes = Buffer.from(text);
  const length = bytes.length < 126 ? [0x80 | bytes.length] : [0xfe, bytes.length >> 8, bytes.length & 0xff];
  return Buffer.concat([Buffer.from([first, ...length, 0, 0, 0, 0]), bytes]);
}

const packetOf = (...frames: Buffer[]) => {
  const round = Buffer.concat(frames);
  return Buffer.concat(Array<Buffer>(Math.ceil(packetBytes / round.length)).fill(round));
};

const pings = packetOf(frameOf(0x89));
const pongs = packetOf(frameOf(0x8a));
const texts = packetOf(frameOf(0x81, '{}'));
const heartbeat = frameOf(0x81, '["1","1","phoenix","heartbeat",{}]');
const fragments = packetOf(
  frameOf(0x01),
  ...Array<Buffer>(50).fill(frameOf(0x00)),
  frameOf(0x89),
  frameOf(0x80),
);
const joins = packetOf(
  ...Array.from({ length: 50 }, (_, index) => [
    frameOf(0x81, `["1","1","realtime:room-${index}","phx_join",{"config":{}}]`),
    frameOf(0x81, `["1","1","realtime:room-${index}","phx_leave",{}]`),
  ]).flat(),
);
const blankLines = Buffer.alloc(packetBytes, '\r\n');

const handshakeOf = ({ port, publishableKey }: Target, { reported }: Sender, path = 'websocket') =>
  [
    `GET /realtime/v1/${path}?apikey=${publishableKey}&vsn=2.0.0 HTTP/1.1`,
    `host: localhost:${port}`,
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    `sec-websocket-key: ${Buffer.alloc(16).toString('base64')}`,
    ...(reported ? [`x-forwarded-for: ${reported}`] : []),
    '\r\n',
  ].join('\r\n');

/** Senders of one address, or of as many networks. */
const ofOneAddress = (count: number): Sender[] =>
  Array.from({ length: count }, () => ({ localAddress: '127.66.0.1' }));
const ofNetworks = (count: number, networks: number): Sender[] =>
  Array.from({ length: count }, (_, index) =>
    index % 2 === 0
      ? { localAddress: `127.${66 + (index % networks)}.0.1` }
      : { localAddress: '127.66.0.1', reported: `2001:db8:${index % networks}::${index}` },
  );

interface Flood {
  senders: readonly Sender[];
  /** Sent first, once. */
  begin: (target: Target, sender: Sender) => string;
  /** Whether the flood begins with the answer to it. */
  waitsForAnswer?: boolean;
  /** Sent again and again; nothing by default. */
  packet?: Buffer;
  /** Milliseconds after which a sender disconnects by itself. Default: never. */
  disconnectsAfterMs?: number;
  /** All senders together. Default: 50 MB. */
  bytesPerSecond?: number;
  floodsConnections?: boolean;
}

function flood(name: string, { senders, begin, packet, ...options }: Flood): Attack {
  return {
    name,
    floodsConnections: options.floodsConnections ?? false,
    async run(target, signal) {
      const counts = { connected: 0, answered: 0, disconnected: 0, megabytes: 0 };
      const open = new Set<Socket>();
      const ready = new Set<Socket>();
      const start = (sender: Sender) => {
        if (signal.aborted) return;
        const socket = connect({
          host: '127.0.0.1',
          port: target.port,
          localAddress: sender.localAddress,
          noDelay: true,
        });
        open.add(socket);
        socket.on('error', () => {});
        socket.once('connect', () => {
          counts.connected += 1;
          socket.write(begin(target, sender));
          if (!options.waitsForAnswer) ready.add(socket);
          if (options.disconnectsAfterMs !== undefined)
            setTimeout(() => socket.destroy(), options.disconnectsAfterMs);
        });
        socket.once('data', (bytes) => {
          counts.answered += 1;
          if (bytes.toString('latin1', 0, 12) === 'HTTP/1.1 101') ready.add(socket);
        });
        socket.once('close', () => {
          open.delete(socket);
          ready.delete(socket);
          counts.disconnected += 1;
          setImmediate(() => start(sender));
        });
      };
      for (const sender of senders) start(sender);
      const rate = options.bytesPerSecond ?? bytesPerSecond;
      while (!signal.aborted) {
        let left = (rate * intervalMs) / 1000;
        const round = [...ready].filter((socket) => socket.writableLength <= maxQueued);
        for (const socket of round) {
          if (!packet || left <= 0) break;
          socket.write(packet);
          // The next round begins with another one.
          ready.delete(socket);
          ready.add(socket);
          left -= packet.length;
          counts.megabytes += packet.length / 1e6;
        }
        await new Promise((done) => setTimeout(done, intervalMs));
      }
      for (const socket of open) socket.destroy();
      return { ...counts, megabytes: Math.round(counts.megabytes), 'still open': open.size };
    },
  };
}

const websocket = { begin: handshakeOf, waitsForAnswer: true };
const request = ({ port }: Target) => `GET /shop HTTP/1.1\r\nhost: localhost:${port}\r\n\r\n`;

export const socketAttacks: readonly Attack[] = [
  flood('A1: pings of 100 sockets', { ...websocket, senders: ofOneAddress(100), packet: pings }),
  flood('A1: pongs of 100 sockets', { ...websocket, senders: ofOneAddress(100), packet: pongs }),
  flood('A1: two-byte texts of 100 sockets', { ...websocket, senders: ofOneAddress(100), packet: texts }),
  flood('A1: fragments of 100 sockets', { ...websocket, senders: ofOneAddress(100), packet: fragments }),
  flood('A1: joins and leaves of 100 sockets', { ...websocket, senders: ofOneAddress(100), packet: joins }),
  flood('A1: pings of 500 sockets of 20 networks', {
    ...websocket,
    senders: ofNetworks(500, 20),
    packet: pings,
  }),
  flood('A1: heartbeats below the limit of a socket, of 500 sockets of 20 networks', {
    ...websocket,
    senders: ofNetworks(500, 20),
    packet: heartbeat,
    bytesPerSecond: 100 * 500 * heartbeat.length,
  }),
  flood('A1: handshakes of 100 connections', {
    ...websocket,
    senders: ofOneAddress(100),
    disconnectsAfterMs: 5,
    floodsConnections: true,
  }),
  flood('A1: upgrades to a path that is not served', {
    senders: ofNetworks(200, 20),
    begin: (target, sender) => handshakeOf(target, sender, 'nothing'),
  }),
  flood('A1: frames sent before the answer to the handshake', {
    senders: ofOneAddress(100),
    begin: handshakeOf,
    packet: pings,
  }),
  flood('blank lines of 100 connections', {
    senders: ofOneAddress(100),
    begin: () => '',
    packet: blankLines,
  }),
  flood('pipelined requests of 100 connections', {
    senders: ofOneAddress(100),
    begin: (target) => request(target).repeat(500),
  }),
  flood('requests that are abandoned at once, of 100 connections', {
    senders: ofOneAddress(100),
    begin: request,
    disconnectsAfterMs: 2,
    floodsConnections: true,
  }),
  flood('A8: 5,000 half requests', {
    senders: ofNetworks(5_000, 20),
    begin: ({ port }) => `GET /shop HTTP/1.1\r\nhost: localhost:${port}\r\nx-half: `,
    floodsConnections: true,
  }),
];
