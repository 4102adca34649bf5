/**
 * Configuration from an xDS server over one aggregated stream, state of the world (Envoy's xDS protocol, "ADS"): every
 * response is the whole configuration. A good one is acknowledged and served, one with a fault is refused with the
 * reasons and changes nothing. A stream that ends is opened again after a pause that doubles.
 */
import type { DiscoveryRequest } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { status } from "@grpc/grpc-js";
import { renderConfigProblem } from "../config-problem.ts";
import type { ConfigSource, ConfigUpdate } from "../config-source.ts";
import { inTurns } from "../in-turns.ts";
import { type AdsConnection, openAdsConnection, type XdsServer } from "./ads-connection.ts";
import { readXdsConfig, type XdsConfig } from "./xds-config.ts";
import { type DiscoveryResponse, maxResources, rateLimitConfigType } from "./xds-resource.ts";

export interface XdsSourceOptions {
  readonly server: XdsServer;
  readonly node: XdsNode;
  readonly mergesDomains: boolean;
  /** Descriptors of a response; absent: `defaultMaxDescriptors`. A response with more is refused. */
  readonly maxDescriptors?: number;
  readonly backoff: XdsBackoff;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Told when the server cannot be reached and when a stream ends, with the pause until the next attempt. */
  readonly onFault: (fault: string) => void;
  /** Told when a stream opens, and of each response and what it was answered with. */
  readonly onEvent?: (event: XdsEvent, version: string) => void;
}

export type XdsEvent = "stream opened" | "response received" | "response acknowledged" | "response refused";

/** Who this service is to the server. */
export interface XdsNode {
  readonly id: string;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Pauses between streams, in ms. */
export interface XdsBackoff {
  /** While the server cannot be reached. */
  readonly connectIntervalMs: number;
  /** After a stream that the server ended; doubles with each further one, up to `maxMs`. */
  readonly initialMs: number;
  readonly maxMs: number;
  /** Share of a pause, 0 to 1, that chance adds or takes. */
  readonly randomFactor: number;
}

/** About 100 MB of memory. */
export const defaultMaxDescriptors = 100_000;

/** A refusal may have a reason for every descriptor; the server's log need not. */
const maxReasons = 10;

export class XdsSource implements ConfigSource {
  readonly #options: XdsSourceOptions;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;
  #connection: AdsConnection | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  #isReading = false;
  /** The newest response that is not read yet; older ones need no answer, because each is the whole configuration. */
  #next: { readonly connection: AdsConnection; readonly response: DiscoveryResponse } | undefined;
  /** Of the last good response; what the server is told in every request. */
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
      onResponse: (response) => this.#await(connection, response),
      onEnd: (reason, wasReached) => this.#retry(reason, wasReached),
    });
    this.#connection = connection;
  }

  #retry(reason: string, wasReached: boolean): void {
    if (this.#onUpdate === undefined) return;
    const { clock, onFault } = this.#options;
    const delayMs = this.#pauseMs(wasReached);
    onFault(`xDS server ${this.#options.server.address}: ${reason}; trying again in ${Math.round(delayMs)} ms`);
    this.#timer = clock.setTimer(delayMs, () => this.#connect());
  }

  /** A server that is not there is looked for in even intervals: it may be back at any time, and costs nothing till then. */
  #pauseMs(wasReached: boolean): number {
    const { backoff, random } = this.#options;
    const even = 1 + backoff.randomFactor * (2 * random() - 1);
    if (!wasReached) return backoff.connectIntervalMs * even;
    const pauseMs = Math.min(backoff.initialMs * 2 ** Math.min(this.#failures, 30), backoff.maxMs);
    this.#failures++;
    return pauseMs * even;
  }

  #await(connection: AdsConnection, response: DiscoveryResponse): void {
    this.#next = { connection, response };
    if (!this.#isReading) void this.#readAll();
  }

  /** Never rejects. */
  async #readAll(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined;
      const { connection, response } = next;
      connection.send(await this.#take(response));
    }
    this.#isReading = false;
  }

  /** Serves a response, or not, and resolves with what to tell the server. */
  async #take(response: DiscoveryResponse): Promise<DiscoveryRequest> {
    const { mergesDomains, maxDescriptors = defaultMaxDescriptors, clock } = this.#options;
    const { resources, resourceCount } = response;
    this.#options.onEvent?.("response received", response.versionInfo);
    const xds = { resources, mergesDomains, maxDescriptors };
    const isTooMany = resourceCount > maxResources;
    const read = isTooMany ? tooManyResources(resourceCount) : await inTurns(readXdsConfig(xds), clock);
    const { config, parts, problems } = read;
    this.#options.onEvent?.(config === undefined ? "response refused" : "response acknowledged", response.versionInfo);
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
