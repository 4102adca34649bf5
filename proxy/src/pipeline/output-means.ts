/**
 * The mean output of each model of a backend, learned from the responses of a worker, for requests that do not say how
 * much output they allow. What the backend of a tenant reports has no effect on those of others. Clients name models,
 * so only the `max` most recent ones are kept.
 */

import type { TokenUsage } from "../ir/usage.ts";

/** The share of a new response in the mean. */
const newShare = 1 / 16;

/** The means of one worker. */
export class OutputMeans {
  readonly #max: number;
  /** By backend and model. That of the latest response is the last. */
  readonly #means = new Map<string, number>();

  /** @param max at least 1. */
  constructor(max = 1_000) {
    this.#max = max;
  }

  /**
   * Learns from a response, if the provider has reported its output.
   *
   * @param backend its key.
   * @param model that the provider got.
   */
  learn({ output, estimated }: TokenUsage, backend: string, model: string | undefined): void {
    if (output !== undefined && !estimated && model !== undefined) this.#add(keyOf(backend, model), output);
  }

  #add(key: string, tokens: number): void {
    const mean = this.#means.get(key);
    this.#means.delete(key);
    if (this.#means.size >= this.#max) {
      const [oldest = ""] = this.#means.keys();
      this.#means.delete(oldest);
    }
    this.#means.set(key, mean === undefined ? tokens : mean + (tokens - mean) * newShare);
  }

  /** Returns the mean of a model of a backend, rounded up; undefined if none is known. */
  of(backend: string, model: string): number | undefined {
    const mean = this.#means.get(keyOf(backend, model));
    return mean === undefined ? undefined : Math.ceil(mean);
  }
}

/** The key of a backend has no space. */
function keyOf(backend: string, model: string): string {
  return `${backend} ${model}`;
}
