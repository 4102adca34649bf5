/**
 * The rate limit services of a replay: ours, in memory and on the replay's clock, with the limits of a service's own files.
 * What goes in and out are the bytes that a proxy and a service exchange, so that both sides are those that serve.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ReplayServices } from "@gatewayproxy/proxy/app/limit-replay";
import type { GlobalLimit } from "@gatewayproxy/proxy/ir/global-limit";
import {
  type CallOutcome,
  callFailure,
  type UnaryClient,
} from "@gatewayproxy/proxy/policy/ratelimit/global/grpc/unary-client";
import { openOfflineService } from "@gatewayproxy/ratelimit-service/app/offline-service";
import type { ConfigText } from "@gatewayproxy/ratelimit-service/config/config-set";

/** The files of a service, found sound, and the domains that they are about. */
export interface ServiceFiles {
  readonly texts: readonly ConfigText[];
  readonly domains: ReadonlySet<string>;
}

/** Without files only limits are known that are all on the descriptors themselves. */
export function replayServices(files: ServiceFiles | undefined): ReplayServices {
  const { texts, domains } = files ?? { texts: [], domains: new Set<string>() };
  return {
    knows: (limit) => limit.hitsMode !== "Kuadrant" && (domains.has(limit.domain) || overridesAll(limit)),
    open: (limits, clock) => offlineClient([...texts, ...emptyDomains(limits, domains)], clock),
  };
}

function overridesAll({ descriptors }: GlobalLimit): boolean {
  return descriptors.every(({ limitOverride }) => limitOverride !== undefined);
}

/** A service heeds overrides only in a domain that it has. */
function emptyDomains(limits: readonly GlobalLimit[], known: ReadonlySet<string>): readonly ConfigText[] {
  const missing = new Set(limits.map(({ domain }) => domain).filter((domain) => !known.has(domain)));
  return Array.from(missing, (domain) => {
    return { key: `domain ${domain}`, file: "no file", text: `domain: ${JSON.stringify(domain)}\n` };
  });
}

function offlineClient(texts: readonly ConfigText[], clock: Clock): UnaryClient {
  const call = openOfflineService(texts, clock);
  return {
    update: () => undefined,
    close: () => undefined,
    call: (path, message, _timeoutMs, done) => done(outcomeOf(() => call(path, message))),
  };
}

function outcomeOf(call: () => Buffer): CallOutcome {
  try {
    return { kind: "answered", message: call() };
  } catch (error) {
    return callFailure("rejected", error instanceof Error ? error.message : String(error));
  }
}
