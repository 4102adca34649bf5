/** `/debug/pprof/profile` and `/debug/pprof/heap`: profiles of all threads, for tools such as `go tool pprof`. */
import type { ProfileOutcome } from "@gatewayproxy/runtime/profiler";
import { type AdminResponse, type AdminEndpoint, type AdminError, type AdminRequest, reject } from "../endpoint.ts";
import { readInteger } from "../parameters.ts";

/** Profiles all threads for `durationMs`. `signal` ends the profile early. */
export type TakeCpuProfile = (durationMs: number, signal: AbortSignal) => Promise<ProfileOutcome>;

/** The endpoint of CPU profiles. A second profile at the same time gets a 429. */
export function cpuProfileEndpoint(take: TakeCpuProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/profile",
    query: ["seconds=N"],
    summary: "CPU profile of all threads over N seconds (1 to 300, 10 if absent), as gzip'd pprof.",
    methods: { GET: (request) => respondCpuProfile(take, request) },
  };
}

/** Takes a heap profile: of the live objects, or, if a duration is given, of their change over it. */
export type TakeHeapProfile = (durationMs: number | undefined, signal: AbortSignal) => Promise<Buffer>;

/** The endpoint of heap profiles. */
export function heapProfileEndpoint(take: TakeHeapProfile): AdminEndpoint {
  return {
    path: "/debug/pprof/heap",
    query: ["seconds=N"],
    summary:
      "Live objects in the heaps of all threads by allocation site, as gzip'd pprof; with seconds (1 to 300) their change over that time.",
    methods: {
      async GET({ query, signal }) {
        const seconds = readSeconds(query, undefined);
        if (typeof seconds === "object") return seconds;
        return profileFile("heap", await take(seconds && seconds * 1_000, signal));
      },
    },
  };
}

function readSeconds<Fallback>(query: URLSearchParams, fallback: Fallback): number | Fallback | AdminError {
  return readInteger(query, "seconds", { min: 1, max: 300, fallback });
}

async function respondCpuProfile(take: TakeCpuProfile, { query, signal }: AdminRequest): Promise<AdminResponse> {
  const seconds = readSeconds(query, 10);
  if (typeof seconds !== "number") return seconds;
  const outcome = await take(seconds * 1_000, signal);
  if (outcome.kind === "busy") {
    return reject(429, "another profile is being taken", "profiles are taken one at a time; try again later");
  }
  return profileFile("cpu", outcome.bytes);
}

function profileFile(kind: "cpu" | "heap", bytes: Buffer): AdminResponse {
  return { kind: "file", bytes, contentType: "application/octet-stream", name: `${kind}.pb.gz` };
}
