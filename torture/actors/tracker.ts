// A client that follows an order like its tracking page: subscribes, and reads the order again after each reconnection.
import { WebSocket } from 'ws';

export interface Tracker {
  /** Resolves when it is subscribed for the first time. */
  ready: Promise<void>;
  close(): void;
}

export interface TrackedOrder {
  id: string;
  /** IP address of the customer. */
  address: string;
  publishableKey: string;
  /** The port for the next connection. */
  nextPort(): number;
  /** Receives each update. */
  onUpdate(order: { status: string; payment_status: string }): void;
  /** Called when it is subscribed again after a lost connection. */
  onReconnected(): void;
}

const HEARTBEAT_MS = 25_000;
const RECONNECT_MS = 500;

/** Starts following an order. */
export function followOrder(tracked: TrackedOrder): Tracker {
  const topic = `realtime:order-${tracked.id}`;
  let socket: WebSocket;
  let isClosed = false;
  let wasReady = false;
  let markReady = () => {};
  const ready = new Promise<void>((done) => {
    markReady = done;
  });
  const send = (message: Record<string, unknown>) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
  const connect = () => {
    const query = new URLSearchParams({ apikey: tracked.publishableKey, vsn: '1.0.0' });
    socket = new WebSocket(`ws://127.0.0.1:${tracked.nextPort()}/realtime/v1/websocket?${query}`, {
      headers: { 'x-forwarded-for': tracked.address },
    });
    socket.on('open', () =>
      send({ topic, event: 'phx_join', payload: { config: {} }, ref: '1', join_ref: '1' }),
    );
    socket.on('message', (data) => {
      const { event, ref, payload } = JSON.parse(String(data));
      if (event === 'broadcast') return tracked.onUpdate(payload.payload);
      if (event !== 'phx_reply' || ref !== '1') return;
      // A refused join is retried like a lost connection.
      if (payload.status !== 'ok') return socket.close();
      if (wasReady) tracked.onReconnected();
      wasReady = true;
      markReady();
    });
    // The close event follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (!isClosed) setTimeout(connect, RECONNECT_MS);
    });
  };
  const heartbeat = setInterval(
    () => send({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '2' }),
    HEARTBEAT_MS,
  );
  connect();
  return {
    ready,
    close() {
      isClosed = true;
      clearInterval(heartbeat);
      socket.terminate();
    },
  };
}
