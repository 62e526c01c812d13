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
  /** Runs until the signal is aborted; resolves to the number of responses by status. */
  run(target: Target, signal: AbortSignal): Promise<Record<string, number>>;
}
