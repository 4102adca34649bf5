/**
 * Configuration from an xDS server over one aggregated stream, state of the world (Envoy's xDS protocol, "ADS"): every
 * response is the whole configuration. A valid one is acknowledged and served; one with problems is rejected with the
 * reasons and changes nothing. A stream that ends is opened again after a pause that doubles.
 */
import type { DiscoveryRequest } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { status } from "@grpc/grpc-js";
import { renderConfigProblem } from "../config-problem.ts";
import type { ConfigSource, ConfigUpdate } from "../config-source.ts";
import { runInSlices } from "../run-in-slices.ts";
import { type AdsConnection, openAdsConnection, type XdsServer } from "./ads-connection.ts";
import { readXdsConfig, type XdsConfig } from "./xds-config.ts";
import { type DiscoveryResponse, maxResources, rateLimitConfigType } from "./xds-resource.ts";

/** The server, and the bounds of its responses. */
export interface XdsSourceOptions {
  /** Its address, TLS and headers. */
  readonly server: XdsServer;
  /** The identity that each stream begins with. */
  readonly node: XdsNode;
  /** Whether several resources may describe one domain (MERGE_DOMAIN_CONFIG). */
  readonly mergesDomains: boolean;
  /**
   * Maximum number of descriptors of a response; the default is `defaultMaxDescriptors`. A response with more is
   * rejected.
   */
  readonly maxDescriptors?: number;
  /** The pauses between attempts to connect. */
  readonly backoff: XdsBackoff;
  /** Times these pauses. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Called when the server cannot be reached and when a stream ends, with the pause until the next attempt. */
  readonly onError: (problem: string) => void;
  /** Called when a stream opens, and for each response and its acknowledgement or rejection. */
  readonly onEvent?: (event: XdsEvent, version: string) => void;
}

/** An event of a stream, in the words of the log. */
export type XdsEvent = "stream opened" | "response received" | "response acknowledged" | "response rejected";

/** The identity of this service towards the server. */
export interface XdsNode {
  readonly id: string;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Pauses between streams, in ms. */
export interface XdsBackoff {
  /** Interval while the server cannot be reached. */
  readonly connectIntervalMs: number;
  /** Pause after a stream that the server ended; doubles with each further one, up to `maxMs`. */
  readonly initialMs: number;
  readonly maxMs: number;
  /** Share of a pause, 0 to 1, by which it varies at random. */
  readonly randomFactor: number;
}

/** Takes about 100 MB of memory. */
export const defaultMaxDescriptors = 100_000;

/** Maximum number of reasons in a rejection. There may be one for every descriptor, and the server logs them. */
const maxReasons = 10;

/** The configuration from one xDS server. */
export class XdsSource implements ConfigSource {
  readonly #options: XdsSourceOptions;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;
  #connection: AdsConnection | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  #isReading = false;
  /** The newest response that is not read yet. Older ones need no reply, because each is the whole configuration. */
  #next: { readonly connection: AdsConnection; readonly response: DiscoveryResponse } | undefined;
  /** Version of the last valid response; sent in every request. */
  #version = "";
  #last: ConfigUpdate = { parts: [], problems: [], warnings: [] };

  constructor(options: XdsSourceOptions) {
    this.#options = options;
  }

  start(onUpdate: (update: ConfigUpdate) => void): void {
    this.#onUpdate = onUpdate;
    this.#connect();
  }

  close(): void {
    this.#onUpdate = undefined;
    this.#timer?.cancel();
    this.#connection?.close();
  }

  #connect(): void {
    if (this.#onUpdate === undefined) return;
    const connection = openAdsConnection(this.#options.server, {
      onOpen: () => {
        this.#options.onEvent?.("stream opened", this.#version);
        connection.send({ ...this.#request(""), node: nodeMessage(this.#options.node) });
      },
      onResponse: (response) => this.#enqueue(connection, response),
      onEnd: (reason, wasReached) => this.#retry(reason, wasReached),
    });
    this.#connection = connection;
  }

  #retry(reason: string, wasReached: boolean): void {
    if (this.#onUpdate === undefined) return;
    const { clock, onError } = this.#options;
    const delayMs = this.#pauseMs(wasReached);
    onError(`xDS server ${this.#options.server.address}: ${reason}; trying again in ${Math.round(delayMs)} ms`);
    this.#timer = clock.setTimer(delayMs, () => this.#connect());
  }

  /**
   * Returns the pause before the next attempt. A server that cannot be reached is tried at a fixed interval: it may
   * return at any time, and an attempt is cheap.
   */
  #pauseMs(wasReached: boolean): number {
    const { backoff, random } = this.#options;
    const jitter = 1 + backoff.randomFactor * (2 * random() - 1);
    if (!wasReached) return backoff.connectIntervalMs * jitter;
    const pauseMs = Math.min(backoff.initialMs * 2 ** Math.min(this.#failures, 30), backoff.maxMs);
    this.#failures++;
    return pauseMs * jitter;
  }

  #enqueue(connection: AdsConnection, response: DiscoveryResponse): void {
    this.#next = { connection, response };
    if (!this.#isReading) void this.#readAll();
  }

  /** Never rejects. */
  async #readAll(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined;
      const { connection, response } = next;
      connection.send(await this.#process(response));
    }
    this.#isReading = false;
  }

  /** Serves or rejects a response, and resolves with the request that reports the result. */
  async #process(response: DiscoveryResponse): Promise<DiscoveryRequest> {
    const { mergesDomains, maxDescriptors = defaultMaxDescriptors, clock } = this.#options;
    const { resources, resourceCount } = response;
    this.#options.onEvent?.("response received", response.versionInfo);
    const xds = { resources, mergesDomains, maxDescriptors };
    const hasTooMany = resourceCount > maxResources;
    const parsed = hasTooMany ? tooManyResources(resourceCount) : await runInSlices(readXdsConfig(xds), clock);
    const { config, parts, problems } = parsed;
    this.#options.onEvent?.(config === undefined ? "response rejected" : "response acknowledged", response.versionInfo);
    if (config === undefined) {
      this.#onUpdate?.({ ...this.#last, problems });
      const reasons = problems.slice(0, maxReasons).map(renderConfigProblem).join("\n");
      return { ...this.#request(response.nonce), errorDetail: { code: status.INVALID_ARGUMENT, message: reasons } };
    }
    this.#failures = 0;
    this.#version = response.versionInfo;
    this.#last = { config, xds, parts, problems: [], warnings: [] };
    this.#onUpdate?.(this.#last);
    return this.#request(response.nonce);
  }

  #request(responseNonce: string): DiscoveryRequest {
    return { typeUrl: rateLimitConfigType, versionInfo: this.#version, responseNonce };
  }
}

function nodeMessage({ id, metadata }: XdsNode) {
  const fields = Object.fromEntries([...metadata].map(([name, stringValue]) => [name, { stringValue }]));
  return { id, userAgentName: "gateway-proxy-ratelimit-service", metadata: { fields } };
}

function tooManyResources(count: number): XdsConfig {
  return { parts: [], problems: [{ message: `${count} resources, at most ${maxResources} are accepted` }] };
}
