/** `/limits` and `/limits/decisions`: what the counters stand at, and why a request was refused. */
import type { Decisions } from "@gatewayproxy/admin-api/decisions";
import type { Limits } from "@gatewayproxy/admin-api/limits";
import type { AdminEndpoint } from "../endpoint.ts";
import { readInteger } from "../parameters.ts";

/** @param collect told how many counters there may be. */
export function limitsEndpoint(collect: (max: number) => Promise<Limits>): AdminEndpoint {
  return {
    path: "/limits",
    query: ["max=N"],
    summary:
      "Open counters of this replica, nearest to exhaustion first (N of them, 1 to 10000, 1000 where absent), and the state of rate limit services.",
    methods: {
      async GET({ query }) {
        const max = readInteger(query, "max", { min: 1, max: 10_000, fallback: 1_000 });
        return typeof max === "number" ? { kind: "json", value: await collect(max) } : max;
      },
    },
  };
}

/** @param find told the request's id, or nothing for all. */
export function decisionsEndpoint(find: (id: string | undefined) => Promise<Decisions>): AdminEndpoint {
  return {
    path: "/limits/decisions",
    query: ["id=REQUEST_ID"],
    summary:
      "Why a request was refused, by the x-request-id of its answer; without id, every refusal that is remembered.",
    methods: { GET: async ({ query }) => ({ kind: "json", value: await find(query.get("id") ?? undefined) }) },
  };
}
