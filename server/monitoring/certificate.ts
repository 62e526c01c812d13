// Expiry of the certificate under which customers reach the shop; a proxy in front of it holds the certificate.
import { isIP } from 'node:net';
import { connect } from 'node:tls';

const ageMs = 60 * 60 * 1000;
const timeoutMs = 5000;

/**
 * Reads the certificate's end, at most once an hour.
 * @param publicUrl the shop's URL for customers
 * @returns seconds since 1970; null without HTTPS, or if the URL cannot be reached from here
 */
export function createCertificateReader(publicUrl: string): () => Promise<number | null> {
  const { protocol, hostname, port } = new URL(publicUrl);
  if (protocol !== 'https:') return async () => null;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<number | null> = Promise.resolve(null);
  return () => {
    if (performance.now() - readAt > ageMs) {
      readAt = performance.now();
      reading = readExpiry(hostname, Number(port || 443));
    }
    return reading;
  };
}

function readExpiry(host: string, port: number): Promise<number | null> {
  return new Promise((done) => {
    // An expired certificate, or one of a private authority, has an end, too.
    const socket = connect({
      host,
      port,
      servername: isIP(host) ? '' : host,
      rejectUnauthorized: false,
      timeout: timeoutMs,
    });
    const finish = (expiry: number | null) => {
      socket.destroy();
      done(expiry);
    };
    socket.once('secureConnect', () => {
      const end = Date.parse(socket.getPeerCertificate().valid_to);
      finish(Number.isNaN(end) ? null : end / 1000);
    });
    socket.once('timeout', () => finish(null)).once('error', () => finish(null));
  });
}
