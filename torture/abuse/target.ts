// What an attack needs, and what it is.

/** Public information about the shop. */
export interface Target {
  port: number;
  publishableKey: string;
  /** Active products, and the path of an uploaded image. */
  slugs: readonly string[];
  productId: string;
  imagePath: string;
}

export interface Attack {
  name: string;
  /**
   * Whether it opens connections as fast as the shop accepts them. Each must be accepted before a customer's next one, so that medians
   * rise; a proxy in front accepts more.
   */
  floodsConnections?: boolean;
  /** Runs until the signal is aborted; resolves to the number of responses by status. */
  run(target: Target, signal: AbortSignal): Promise<Record<string, number>>;
}
