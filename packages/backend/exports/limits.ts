// Fair queues and limits per network.

export type { SizeLimits } from '../data/parse/request-size.ts';
export { Backlog, type Reader } from '../limits/backlog.ts';
export {
  type Client,
  ClientDisconnected,
  type FairQueue,
  isQueueRejection,
  QueueFull,
  queueRejectionStatus,
  type Turn,
} from '../limits/fair-queue.ts';
export { createFairShare, type FairShare, partners, visitorAt } from '../limits/fair-share.ts';
export { networksOf } from '../limits/network.ts';
export { NetworkQuota, NetworkRate } from '../limits/network-limits.ts';
export { defaultLimits } from '../realtime/limits.ts';
