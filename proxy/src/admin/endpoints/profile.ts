/** `/debug/pprof/profile` and `/debug/pprof/heap`: profiles of all threads, for `go tool pprof` and its like. */
import type { ProfileOutcome } from "@gatewayproxy/runtime/profiler";
import { type AdminAnswer, type AdminEndpoint, type AdminRefusal, type AdminRequest, refuse } from "../endpoint.ts";
import { readInteger } from "../parameters.ts";

export type TakeCpuProfile = (durationMs: number, signal: AbortSignal) => Promise<ProfileOutcome>;

export function cpuProfileEndpoint(take: TakeCpuProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/profile",
    query: ["seconds=N"],
    summary: "CPU profile of all threads over N seconds (1 to 300, 10 where absent), as gzip'd pprof.",
    methods: { GET: (request) => answerCpuProfile(take, request) },
  };
}

/** Without a duration what is alive, with one how that changes over it. */
export type TakeHeapProfile = (durationMs: number | undefined, signal: AbortSignal) => Promise<Buffer>;

export function heapProfileEndpoint(take: TakeHeapProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/heap",
    query: ["seconds=N"],
    summary:
      "What is alive in the heaps of all threads, by where it was allocated, as gzip'd pprof; with seconds (1 to 300) how that changes over them.",
    methods: {
      async GET({ query, signal }) {
        const seconds = readSeconds(query, undefined);
        if (typeof seconds === "object") return seconds;
        return profileFile("heap", await take(seconds && seconds * 1_000, signal));
      },
    },
  };
}

function readSeconds<Fallback>(query: URLSearchParams, fallback: Fallback): number | Fallback | AdminRefusal {
  return readInteger(query, "seconds", { min: 1, max: 300, fallback });
}

async function answerCpuProfile(take: TakeCpuProfile, { query, signal }: AdminRequest): Promise<AdminAnswer> {
  const seconds = readSeconds(query, 10);
  if (typeof seconds !== "number") return seconds;
  const outcome = await take(seconds * 1_000, signal);
  if (outcome.kind === "busy") {
    return refuse(
      429,
      "another profile is being taken",
      "one at a time: two would measure each other; ask again later",
    );
  }
  return profileFile("cpu", outcome.bytes);
}

function profileFile(kind: "cpu" | "heap", bytes: Buffer): AdminAnswer {
  return { kind: "file", bytes, contentType: "application/octet-stream", name: `${kind}.pb.gz` };
}
