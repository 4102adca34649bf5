/**
 * What of a policy applies to a target. Entries with `connections` apply to routes of streams, everything else to
 * routes of requests. A Gateway may have both, and then each part applies to the routes of its kind.
 */
import { isStreamRouteKind } from "@gatewayproxy/runtime/route-key";
import type { PolicyTargetRef, ProxyPolicy } from "../../api/proxy-policy.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";

/** The kinds of traffic of a target. */
interface Traffic {
  readonly requests: boolean;
  readonly streams: boolean;
}

/** The parts of a policy that do not apply to a target. */
export interface Inapplicable {
  /** Fields of the policy, such as `authentication` and `local[0]`. At least one. */
  readonly parts: readonly string[];
  /** Whether no part applies. */
  readonly isWhole: boolean;
  /** Whether the target has authentication that cannot be enforced. */
  readonly needsAuthentication: boolean;
  /** To follow the parts in a sentence. */
  readonly reason: string;
}

/**
 * Returns the parts that do not apply to a target; undefined if all do.
 *
 * @param gateway the Gateway, if it is the target and exists.
 */
export function inapplicableParts(
  policy: ProxyPolicy,
  target: PolicyTargetRef,
  gateway: GatewayState | undefined,
): Inapplicable | undefined {
  const traffic = trafficOf(target, gateway);
  const { streams, requests } = partsOf(policy);
  const parts = [...(traffic.requests ? [] : requests), ...(traffic.streams ? [] : streams)];
  if (parts.length === 0) return undefined;
  const has = traffic.streams
    ? "connections, to which only local entries with connections apply"
    : "requests, to which local entries with connections do not apply";
  return {
    parts,
    isWhole: parts.length === requests.length + streams.length,
    needsAuthentication: isStreamRouteKind(target.kind) && policy.spec.traffic.authentication !== undefined,
    reason: `${titleOf(policy, target)} has ${has}`,
  };
}

function titleOf({ metadata }: ProxyPolicy, { kind, name, sectionName }: PolicyTargetRef): string {
  const object = `${kind} ${metadata.namespace}/${name}`;
  return kind === "Gateway" && sectionName !== undefined ? `listener ${sectionName} of ${object}` : object;
}

/** The parts of a policy for each kind of traffic, as fields of `spec.traffic.rateLimit` and `spec.traffic`. */
const partsOf = memoised(({ spec: { traffic } }: ProxyPolicy) => {
  const { local, global } = traffic.rateLimit;
  const named = local.map((entry, index) => ({ name: `local[${index}]`, isStream: entry.connections !== undefined }));
  return {
    requests: [
      ...(traffic.authentication === undefined ? [] : ["authentication"]),
      ...named.flatMap(({ name, isStream }) => (isStream ? [] : [name])),
      ...(global === undefined ? [] : ["global"]),
    ],
    streams: named.flatMap(({ name, isStream }) => (isStream ? [name] : [])),
  };
});

const both: Traffic = { requests: true, streams: true };

function trafficOf({ kind, sectionName }: PolicyTargetRef, gateway: GatewayState | undefined): Traffic {
  if (kind !== "Gateway") return { requests: !isStreamRouteKind(kind), streams: isStreamRouteKind(kind) };
  if (gateway === undefined) return both;
  if (sectionName === undefined) return trafficOfGateway(gateway);
  const listener = gateway.listeners.find((each) => each.listener.name === sectionName)?.listener;
  return listener === undefined ? both : trafficOfProtocols([listener.protocol]);
}

/** A Gateway may be the target of thousands of policies. */
const trafficOfGateway = memoised(({ listeners, sets }: GatewayState): Traffic => {
  const all = [listeners, ...sets.map((set) => set.listeners)].flat();
  return trafficOfProtocols(all.map(({ listener }) => listener.protocol));
});

/** A target without any known protocol serves nothing, which is reported in another way. */
function trafficOfProtocols(protocols: readonly string[]): Traffic {
  const requests = protocols.some((protocol) => protocol === "HTTP" || protocol === "HTTPS");
  const streams = protocols.some((protocol) => protocol === "TLS" || protocol === "TCP" || protocol === "UDP");
  return requests || streams ? { requests, streams } : both;
}
