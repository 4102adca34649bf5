/** `/debug/pprof/profile` and `/debug/pprof/heap`: profiles of all threads, for `go tool pprof` and its like. */
import type { ProfileKind, ProfileOutcome } from "@gatewayproxy/runtime/profiler";
import { type AdminAnswer, type AdminEndpoint, type AdminRequest, refuse } from "../endpoint.ts";
import { readInteger } from "../parameters.ts";

export type TakeProfile = (kind: ProfileKind, durationMs: number, signal: AbortSignal) => Promise<ProfileOutcome>;

export function cpuProfileEndpoint(take: TakeProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/profile",
    query: ["seconds=N"],
    summary: "CPU profile of all threads over N seconds (1 to 300, 10 where absent), as gzip'd pprof.",
    methods: { GET: (request) => answerProfile(take, "cpu", request, { fallback: 10 }) },
  };
}

export function heapProfileEndpoint(take: TakeProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/heap",
    query: ["seconds=N"],
    summary: "Where the memory in use was allocated during N seconds (1 to 300, 1 where absent), as gzip'd pprof.",
    methods: { GET: (request) => answerProfile(take, "heap", request, { fallback: 1 }) },
  };
}

async function answerProfile(
  take: TakeProfile,
  kind: ProfileKind,
  { query, signal }: AdminRequest,
  { fallback }: { readonly fallback: number },
): Promise<AdminAnswer> {
  const seconds = readInteger(query, "seconds", { min: 1, max: 300, fallback });
  if (typeof seconds !== "number") return seconds;
  const outcome = await take(kind, seconds * 1_000, signal);
  if (outcome.kind === "busy") {
    return refuse(
      429,
      "another profile is being taken",
      "one at a time: two would measure each other; ask again later",
    );
  }
  return { kind: "file", bytes: outcome.bytes, contentType: "application/octet-stream", name: `${kind}.pb.gz` };
}
