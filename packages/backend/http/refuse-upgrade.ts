// Answers to upgrade requests that do not become WebSockets.
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * Answers an upgrade request with an HTTP status and closes the socket. Node's HTTP server keeps sockets half open and has no
 * timeout for upgraded ones: without the close, a client that keeps its side open would hold the socket indefinitely.
 * @param json body of the response; '' for none
 */
export function refuseUpgrade(socket: Duplex, status: number, json: string): void {
  socket.once('finish', () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${json ? 'content-type: application/json\r\n' : ''}` +
      `content-length: ${Buffer.byteLength(json)}\r\nconnection: close\r\n\r\n${json}`,
  );
}
