/**
 * The rate limit services of a replay: the service of this project, in memory and on the replay's clock, with limits
 * from the files of a service. Requests and responses are encoded, so that both sides run the code that serves.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import type { ReplayServices } from "@gatewayproxy/proxy/limit-replay";
import type { GlobalLimit } from "@gatewayproxy/proxy/global-limit";
import { type CallOutcome, callFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "@gatewayproxy/proxy/unary-client";
import { openOfflineService } from "@gatewayproxy/ratelimit-service/offline-service";
import type { ConfigText } from "@gatewayproxy/ratelimit-service/config-set";

/** The valid files of a service, and the domains that they define. */
export interface ServiceFiles {
  readonly texts: readonly ConfigText[];
  readonly domains: ReadonlySet<string>;
}

/** Creates the services. Without files, only limits whose descriptors give every request a limit are known. */
export function replayServices(files: ServiceFiles | undefined): ReplayServices {
  const { texts, domains } = files ?? { texts: [], domains: new Set<string>() };
  return {
    knows: (limit) => limit.hitsMode !== "Kuadrant" && (domains.has(limit.domain) || overridesAll(limit)),
    open: (limits, clock) => offlineClient([...texts, ...emptyDomains(limits, domains)], clock),
  };
}

function overridesAll({ descriptors }: GlobalLimit): boolean {
  return descriptors.every(({ limitOverride }) => limitOverride?.requestsPerUnit !== undefined);
}

/** A service applies overrides only in a domain that it has. */
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
    return { kind: "responded", message: call() };
  } catch (error) {
    return callFailure("rejected", errorMessage(error));
  }
}
