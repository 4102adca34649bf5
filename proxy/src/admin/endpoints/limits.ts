/** `/limits`, `/limits/reset` and `/limits/decisions`: the state of the counters, and the causes of denials. */
import type { Decisions } from "@gatewayproxy/admin-api/decisions";
import type { Limits, LimitsReset } from "@gatewayproxy/admin-api/limits";
import { type AdminEndpoint, type AdminError, reject } from "../endpoint.ts";
import type { DecisionQuery } from "../decision-ring.ts";
import { readInteger, readTraceId } from "../parameters.ts";
import type { ResetRequest } from "../reset-selection.ts";

/** @param collect Called with the maximum number of counters. */
export function limitsEndpoint(collect: (max: number) => Promise<Limits>): AdminEndpoint {
  return {
    path: "/limits",
    query: ["max=N"],
    summary:
      "Open counters of this replica, nearest to exhaustion first (N of them, 1 to 10000, 1000 if absent), and the state of rate limit services.",
    methods: {
      async GET({ query }) {
        const max = readInteger(query, "max", { min: 1, max: 10_000, fallback: 1_000 });
        return typeof max === "number" ? { kind: "json", value: await collect(max) } : max;
      },
    },
  };
}

/** @param reset Called with the named counters and the address of the operator; undefined on a Unix socket. */
export function limitsResetEndpoint(
  reset: (request: ResetRequest, source: string | undefined) => Promise<LimitsReset | AdminError>,
): AdminEndpoint {
  return {
    path: "/limits/reset",
    query: ["policy=NAMESPACE/NAME", "entry=NAME_OR_INDEX", "key=VALUE"],
    summary:
      "Restores the full budget of a policy's counters in this replica: of all entries or one, and of all values of its key or one.",
    methods: {
      async POST({ query, source }) {
        const policy = query.get("policy") ?? "";
        if (policy === "") {
          return reject(400, "POST /limits/reset without a policy", "policy=NAMESPACE/NAME is required");
        }
        const [entry, key] = [query.get("entry") ?? undefined, query.get("key") ?? undefined];
        const result = await reset({ policy, entry, key }, source);
        return "kind" in result ? result : { kind: "json", value: result };
      },
    },
  };
}

/**
 * @param find Called with the ids of the request and of its trace and the client's address, as far as they are given.
 */
export function decisionsEndpoint(find: (query: DecisionQuery) => Promise<Decisions>): AdminEndpoint {
  return {
    path: "/limits/decisions",
    query: ["id=REQUEST_ID", "trace_id=TRACE_ID", "source=ADDRESS"],
    summary:
      "Why a request was denied, by the x-request-id of its response or by its trace, or a connection, by the address of its client; without any, all stored denials.",
    methods: {
      async GET({ query }) {
        const traceId = readTraceId(query);
        if (typeof traceId === "object") return traceId;
        const [id, source] = [query.get("id") ?? undefined, query.get("source") ?? undefined];
        return { kind: "json", value: await find({ id, traceId, source }) };
      },
    },
  };
}
