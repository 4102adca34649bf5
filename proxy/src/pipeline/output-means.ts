/**
 * The mean output of each model, learned from the responses of a worker, for requests that do not say how much output they
 * allow. Clients name models, so only the `max` most recent ones are kept.
 */

import type { TokenUsage } from "../ir/usage.ts";

/** The share of a new response in the mean. */
const newShare = 1 / 16;

/** The means of one worker. */
export class OutputMeans {
  readonly #max: number;
  /** The model of the latest response is the last. */
  readonly #means = new Map<string, number>();

  /** @param max at least 1. */
  constructor(max = 1_000) {
    this.#max = max;
  }

  /** Learns from a response, if the provider has reported its output. @param model that the provider got. */
  learn({ output, estimated }: TokenUsage, model: string | undefined): void {
    if (output !== undefined && !estimated && model !== undefined) this.#add(model, output);
  }

  #add(model: string, tokens: number): void {
    const mean = this.#means.get(model);
    this.#means.delete(model);
    if (this.#means.size >= this.#max) {
      const [oldest = ""] = this.#means.keys();
      this.#means.delete(oldest);
    }
    this.#means.set(model, mean === undefined ? tokens : mean + (tokens - mean) * newShare);
  }

  /** Returns the mean of a model, rounded up; undefined if none is known. */
  of(model: string): number | undefined {
    const mean = this.#means.get(model);
    return mean === undefined ? undefined : Math.ceil(mean);
  }
}
