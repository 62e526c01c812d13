// Metrics in the format of Prometheus, as GET /metrics returns them (docs/monitoring.md).

import type { Database } from '@jani-juice/backend/database';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { withTimeout } from '../../domain/timeout.ts';

/** One figure of `public.shop_metrics()`. */
interface ShopFigure {
  metric: string;
  label: string | null;
  value: number;
}

export interface Metrics {
  /** Pages sent from the cache. A plain number, to keep cached requests cheap. */
  cachedPages: number;
  /** Pages rendered for the cache. */
  renderedPages: number;
  /** @param route one of `routeOf`, or `file` */
  observeRequest(route: string, status: number, seconds: number): void;
  /** Measures the queries of a database. */
  measureDatabase(database: Database): Database;
  /** Announces a job before its first run. */
  addJob(name: string, everyMs: number): void;
  observeJob(name: string, seconds: number, hasFailed: boolean): void;
  /** Reads at each scrape: open WebSockets. */
  readSockets: () => number;
  /** Reads at each scrape: the services of a hosted project, and whether they answer. */
  readServices: () => Promise<Record<string, boolean>>;
  /** Reads at each scrape whether the direct connection to PostgreSQL receives notifications; null without one. */
  readListening: () => boolean | null;
  /** Reads at each scrape the free and all bytes of the disk with the shop's data. */
  readDisk: () => Promise<{ free: number; size: number } | null>;
  /** Reads at each scrape the end of the public URL's certificate, in seconds since 1970. */
  readCertificateEnd: () => Promise<number | null>;
  /** Reads figures of the whole shop, at most once in 5 seconds, when metrics are scraped. */
  readShop: () => Promise<ShopFigure[]>;
  /** All metrics as text. */
  render(): Promise<string>;
  contentType: string;
}

const shopFiguresAgeMs = 5000;
const shopTimeoutMs = 3000;

/** Metrics of `public.shop_metrics()`: the name of their label, if they have one, and their help text. */
const shopMetrics: Record<string, { label?: string; help: string }> = {
  payments_open: { label: 'status', help: 'Payments that wait for their outcome.' },
  payments_in_review: {
    help: 'Payments whose messages name another amount, or contradict themselves, and that staff must resolve.',
  },
  payment_open_oldest_seconds: { help: 'Age of the oldest payment that waits for its outcome.' },
  payments_completed_last_day: { help: 'Payments completed in the last 24 hours.' },
  payment_last_completed_timestamp_seconds: { help: 'When a payment was last completed.' },
  transactions_without_payment: { help: 'Money at M-PESA that belongs to no payment and is not resolved.' },
  messages_to_check: {
    help: 'Messages of M-PESA that cannot be read or understood and that staff must check.',
  },
  payment_messages_unprocessed: { help: 'Callbacks and confirmations that were stored but not processed.' },
  payment_message_last_timestamp_seconds: {
    label: 'source',
    help: 'When the last message about money arrived, by source.',
  },
  prompts_paused: { help: '1 while prompts do not work because M-PESA refuses the shop.' },
  refunds_open: { label: 'status', help: 'Refunds that are not finished.' },
  outbox_waiting: { label: 'channel', help: 'Messages to customers that wait to be sent.' },
  outbox_oldest_due_seconds: { label: 'channel', help: 'For how long the oldest message has been due.' },
  outbox_failed_last_day: { label: 'status', help: 'Messages of the last 24 hours that were not sent.' },
  messages_withheld: {
    label: 'channel',
    help: 'Messages of the last week that a limit or a daily budget withholds.',
  },
  backup_last_timestamp_seconds: { help: 'When the last usable backup was finished; 0 when there is none.' },
};

/** Creates the metrics of one process. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Requests by route and class of their status. Pages from the cache and files that a cache answers are not in it.',
    labelNames: ['route', 'status'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  const statements = new Histogram({
    name: 'database_duration_seconds',
    help: 'Statements and transactions, with the time they waited for a connection.',
    labelNames: ['kind'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  });
  const jobs = new Histogram({
    name: 'job_duration_seconds',
    help: 'Runs of background jobs.',
    labelNames: ['job', 'result'],
    buckets: [0.01, 0.1, 1, 10, 60, 600],
    registers,
  });
  const jobSuccess = new Gauge({
    name: 'job_last_success_timestamp_seconds',
    help: 'When a job last succeeded; at first, when the process started.',
    labelNames: ['job'],
    registers,
  });
  const jobInterval = new Gauge({
    name: 'job_interval_seconds',
    help: 'How often a job runs.',
    labelNames: ['job'],
    registers,
  });
  const children = new Map<string, ReturnType<typeof requests.labels>>();
  const childOf = (route: string, status: string) => {
    const key = `${status} ${route}`;
    const child = children.get(key) ?? requests.labels(route, status);
    children.set(key, child);
    return child;
  };
  let connections: Database['connections'];

  const metrics: Metrics = {
    cachedPages: 0,
    renderedPages: 0,
    readSockets: () => 0,
    readServices: async () => ({}),
    readListening: () => null,
    readDisk: async () => null,
    readCertificateEnd: async () => null,
    readShop: async () => [],
    contentType: registry.contentType,
    observeRequest(route, status, seconds) {
      childOf(route, statusClass(status)).observe(seconds);
    },
    measureDatabase(database) {
      connections = database.connections;
      const measured = async <T>(kind: string, work: () => Promise<T>): Promise<T> => {
        const begun = performance.now();
        try {
          return await work();
        } finally {
          statements.labels(kind).observe((performance.now() - begun) / 1000);
        }
      };
      return {
        ...database,
        query: (...given) => measured('statement', () => database.query(...given)),
        read: (...given) => measured('read', () => database.read(...given)),
        transaction: (...given) => measured('transaction', () => database.transaction(...given)),
      };
    },
    addJob(job, everyMs) {
      jobInterval.set({ job }, everyMs / 1000);
      jobSuccess.set({ job }, Date.now() / 1000);
    },
    observeJob(job, seconds, hasFailed) {
      jobs.labels(job, hasFailed ? 'failed' : 'done').observe(seconds);
      if (!hasFailed) jobSuccess.set({ job }, Date.now() / 1000);
    },
    async render() {
      await readFigures();
      return registry.metrics();
    },
  };

  new Counter({
    name: 'page_cache_requests_total',
    help: 'Pages that may be cached: sent from the cache (hit) or rendered (miss).',
    labelNames: ['result'],
    registers,
    collect() {
      this.reset();
      this.inc({ result: 'hit' }, metrics.cachedPages);
      this.inc({ result: 'miss' }, metrics.renderedPages);
    },
  });
  new Gauge({
    name: 'realtime_sockets',
    help: 'Open WebSockets.',
    registers,
    collect() {
      this.set(metrics.readSockets());
    },
  });
  new Gauge({
    name: 'hosted_service_up',
    help: 'Whether a service of the hosted project answers. Absent without a hosted project.',
    labelNames: ['service'],
    registers,
    async collect() {
      for (const [service, isUp] of Object.entries(await metrics.readServices()))
        this.set({ service }, isUp ? 1 : 0);
    },
  });
  new Gauge({
    name: 'database_connections',
    help: 'Connections of the pool by state, and callers that wait for one.',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [state, count] of Object.entries(connections?.() ?? {})) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'database_listening',
    help: 'Whether this process receives notifications of PostgreSQL, over a connection without a pooler.',
    registers,
    collect() {
      const isListening = metrics.readListening();
      if (isListening === null) this.remove();
      else this.set(Number(isListening));
    },
  });
  new Gauge({
    name: 'data_disk_bytes',
    help: 'Bytes of the disk with the data of this process.',
    labelNames: ['kind'],
    registers,
    async collect() {
      const disk = await metrics.readDisk().catch(() => null);
      this.reset();
      for (const [kind, bytes] of Object.entries(disk ?? {})) this.set({ kind }, bytes);
    },
  });
  new Gauge({
    name: 'certificate_end_timestamp_seconds',
    help: 'When the certificate of PUBLIC_URL expires.',
    registers,
    async collect() {
      const end = await metrics.readCertificateEnd();
      if (end === null) this.remove();
      else this.set(end);
    },
  });
  const isUp = new Gauge({
    name: 'shop_database_up',
    help: 'Whether the figures of the shop could be read.',
    registers,
  });
  const gauges = new Map(
    Object.entries(shopMetrics).map(([name, { label, help }]) => [
      name,
      new Gauge({ name: `shop_${name}`, help, labelNames: label ? [label] : [], registers }),
    ]),
  );

  const forgetFigures = () => {
    for (const [name, gauge] of gauges) {
      // `reset` leaves a zero where there is no label.
      if (shopMetrics[name]?.label) gauge.reset();
      else gauge.remove();
    }
  };
  forgetFigures();
  let reading: Promise<void> = Promise.resolve();
  let readAt = Number.NEGATIVE_INFINITY;
  const readFigures = (): Promise<void> => {
    if (performance.now() - readAt < shopFiguresAgeMs) return reading;
    readAt = performance.now();
    reading = withTimeout(metrics.readShop(), shopTimeoutMs).then(
      (figures) => {
        isUp.set(1);
        for (const { metric, label, value } of figures) {
          const name = shopMetrics[metric]?.label;
          gauges.get(metric)?.set(name && label !== null ? { [name]: label } : {}, value);
        }
      },
      () => {
        isUp.set(0);
        // Figures of an earlier scrape would look current.
        forgetFigures();
      },
    );
    return reading;
  };
  return metrics;
}

const statusClass = (status: number) => `${Math.floor(status / 100)}xx`;

const pageRoutes: readonly [RegExp, string][] = [
  [/^\/$/, '/'],
  [/^\/(shop|contact|delivery|newsletter|sitemap\.xml|robots\.txt|manifest\.webmanifest)$/, ''],
  [/^\/shop\/[^/]+$/, '/shop/:slug'],
  [/^\/flavors\/[^/]+$/, '/flavors/:slug'],
  [/^\/brands\/[^/]+$/, '/brands/:slug'],
  [/^\/shop\/[^/]+\/order$/, '/shop/:slug/order'],
  [/^\/track-order(\/[^/]+)?$/, '/track-order/:trackingNumber'],
  [/^\/track-order\/[^/]+\/receipt$/, '/track-order/:trackingNumber/receipt'],
  [/^\/track-order\/[^/]+\/pay$/, '/track-order/:trackingNumber/pay'],
  [/^\/t\//, '/t/:code'],
  [/^\/newsletter\//, '/newsletter/:step'],
  [/^\/admin(\/|$)/, '/admin'],
  [/^\/(healthz|readyz|metrics|api\/event)$/, ''],
  [/^\/rest\/v1\/rpc\//, '/rest/v1/rpc/:function'],
  [/^\/rest\/v1(\/|$)/, '/rest/v1/:table'],
  [/^\/functions\/v1\/mobile-money\/(notice|till|reversal|reach)\//, ''],
  [/^\/functions\/v1(\/|$)/, '/functions/v1'],
  [/^\/auth\/v1\/token$/, '/auth/v1/token'],
  [/^\/(auth|storage|realtime)\/v1(?=\/|$)/, ''],
];

/**
 * The label of a request's route, one of a fixed set.
 * @param url path and query, as received
 */
export function routeOf(url: string): string {
  const path = url.split('?', 1)[0] ?? url;
  const isData = path.endsWith('.data');
  const pathname = isData ? path.slice(0, -5).replace(/\/(_root|_)$/, '/') : path;
  for (const [pattern, route] of pageRoutes) {
    const found = pattern.exec(pathname);
    if (found) return (route || found[0].replace(/\/$/, '')) + (isData ? '.data' : '');
  }
  return 'other';
}
