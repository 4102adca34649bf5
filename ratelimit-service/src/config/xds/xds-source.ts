/**
 * Configuration from an xDS server over one aggregated stream, state of the world (Envoy's xDS protocol, "ADS"): every
 * response is the whole configuration. A good one is acknowledged and served, one with a fault is refused with the
 * reasons and changes nothing. A stream that ends is opened again after a pause that doubles.
 */
import type { Any__Output } from "@gatewayproxy/protos/gen/google/protobuf/Any";
import type { DiscoveryRequest } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { DiscoveryResponse__Output } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryResponse";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { status } from "@grpc/grpc-js";
import { type ConfigProblem, renderConfigProblem } from "../config-problem.ts";
import type { ConfigPart, ConfigSource, ConfigUpdate } from "../config-source.ts";
import { assembleDomains, buildDomain } from "../descriptor-tree.ts";
import type { DescriptorLevel, RateLimitConfig } from "../rule.ts";
import { ClaimBook, claimsOf } from "../domain-claims.ts";
import { type AdsConnection, openAdsConnection, type XdsServer } from "./ads-connection.ts";
import { rateLimitConfigType, readXdsResource } from "./xds-resource.ts";

export interface XdsSourceOptions {
  readonly server: XdsServer;
  readonly node: XdsNode;
  readonly mergesDomains: boolean;
  readonly backoff: XdsBackoff;
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** Told when the server cannot be reached and when a stream ends, with the pause until the next attempt. */
  readonly onFault: (fault: string) => void;
}

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

/** A refusal may have a reason for every descriptor; the server's log need not. */
const maxReasons = 10;

export class XdsSource implements ConfigSource {
  readonly #options: XdsSourceOptions;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;
  #connection: AdsConnection | undefined;
  #timer: Timer | undefined;
  #failures = 0;
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
      onOpen: () => connection.send({ ...this.#request(""), node: nodeMessage(this.#options.node) }),
      onResponse: (response) => connection.send(this.#take(response)),
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

  /** Serves a response, or not, and returns what to tell the server. */
  #take(response: DiscoveryResponse__Output): DiscoveryRequest {
    const { config, parts, problems } = configOf(response.resources, this.#options.mergesDomains);
    if (config === undefined) {
      this.#onUpdate?.({ ...this.#last, problems });
      const reasons = problems.slice(0, maxReasons).map(renderConfigProblem).join("\n");
      return { ...this.#request(response.nonce), errorDetail: { code: status.INVALID_ARGUMENT, message: reasons } };
    }
    this.#failures = 0;
    this.#version = response.versionInfo;
    this.#last = { config, parts, problems: [], warnings: [] };
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

interface XdsConfig {
  /** Absent if there is any problem. */
  readonly config?: RateLimitConfig;
  readonly parts: readonly ConfigPart[];
  readonly problems: readonly ConfigProblem[];
}

function configOf(resources: readonly Any__Output[], mergesDomains: boolean): XdsConfig {
  const problems: ConfigProblem[] = [];
  const parts: ConfigPart[] = [];
  const files = new Map<string, { readonly domain: string; readonly level: DescriptorLevel }>();
  const book = new ClaimBook();
  for (const [i, resource] of resources.entries()) {
    try {
      const spec = readXdsResource(resource);
      const built = buildDomain(spec);
      // Names are the server's business, and two resources may have the same.
      const owner = `${spec.key}\n${i}`;
      const conflicts = book.take(owner, claimsOf(spec, mergesDomains));
      problems.push(...built.problems, ...conflicts.map((conflict) => ({ ...conflict, resource: spec.key })));
      if (built.level === undefined) continue;
      files.set(owner, { domain: spec.domain, level: built.level });
      parts.push({ key: spec.key, domain: spec.domain, state: "current" });
    } catch (error) {
      problems.push({
        message: `resource ${i} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      });
    }
  }
  return { ...(problems.length === 0 ? { config: assembleDomains(files) } : {}), parts, problems };
}
