/** Converts the rate limit annotations of an Ingress of ingress-nginx. */
import * as z from "zod";
import { type Converted, type Entry, inRange, type Note, policiesOf } from "./policy.ts";

const prefix = "nginx.ingress.kubernetes.io/";

/** The fields of an Ingress that are converted. */
export const ingressSchema = z.object({
  kind: z.literal("Ingress"),
  metadata: z.object({
    name: z.string(),
    namespace: z.string().optional(),
    annotations: z.record(z.string(), z.unknown()).default({}),
  }),
  spec: z.object({ rules: z.array(z.object({ host: z.string().default("") })).default([]) }).default({ rules: [] }),
});
type Ingress = z.output<typeof ingressSchema>;

/** The multiplier of bursts, without the annotation. */
const defaultMultiplier = 5;

/** Annotations about limits that have no counterpart. */
const unsupported: Readonly<Record<string, string>> = {
  "limit-rate": "the bandwidth of a response is not limited",
  "limit-rate-after": "the bandwidth of a response is not limited",
  "global-rate-limit": "write a global limit of a rate limit service, or shareAcrossReplicas",
};

/** Returns no policy for an Ingress without limits. */
export function convertIngress({ metadata, spec }: Ingress): Converted {
  const object = `Ingress ${metadata.namespace ?? "default"}/${metadata.name}`;
  const notes: Note[] = [];
  const note = (kind: Note["kind"], name: string, message: string): void => {
    notes.push({ kind, object, field: `metadata.annotations[${prefix}${name}]`, message });
  };
  const annotation = (name: string): string | undefined => {
    const value = metadata.annotations[prefix + name];
    return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
  };
  const amount = (name: string): number | undefined => {
    const text = annotation(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (Number.isInteger(value) && value > 0) return value;
    if (value !== 0) note("left out", name, `found ${JSON.stringify(text)}, accepted is a whole number`);
    return undefined;
  };
  for (const [name, message] of Object.entries(unsupported)) {
    if (annotation(name) !== undefined) note("left out", name, message);
  }
  const multiplier = amount("limit-burst-multiplier") ?? defaultMultiplier;
  const when = exemption(annotation("limit-whitelist") ?? annotation("limit-allowlist"), (range) =>
    note("differs", "limit-whitelist", `clients of ${range} are limited, since no condition can express that range`),
  );
  const shared = { key: "source.exactAddress", ...(when !== undefined && { when }) };
  const entries: Entry[] = [];
  for (const [name, unit] of [
    ["limit-rps", "Seconds"],
    ["limit-rpm", "Minutes"],
  ] as const) {
    const requests = amount(name);
    // nginx delays no request of a burst, and allows one more than the burst at once.
    if (requests !== undefined) entries.push({ requests, unit, burst: requests * (multiplier - 1) + 1, ...shared });
  }
  const concurrent = amount("limit-connections");
  if (concurrent !== undefined) {
    entries.push({ concurrent, ...shared });
    note("differs", "limit-connections", "requests in progress are counted instead of connections");
  }
  if (entries.length === 0) return { policies: [], notes };
  const hosts = [...new Set(spec.rules.map(({ host }) => host))];
  const targets = (hosts.length === 0 ? [""] : hosts).map((host) => {
    return { group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: routeName(metadata.name, host) } as const;
  });
  if (targets.length > 1) {
    notes.push({
      ...{ kind: "differs", object, field: "spec.rules" },
      message: `each of the ${targets.length} hosts has its own counters, and the Ingress has one for all`,
    });
  }
  return { policies: policiesOf(metadata, targets, entries), notes };
}

/** @param onUnknown Called for each range that a condition cannot express. */
function exemption(list: string | undefined, onUnknown: (range: string) => void): string | undefined {
  const ranges = (list ?? "").split(",").map((range) => range.trim());
  const conditions = ranges.flatMap((range) => {
    if (range === "") return [];
    const condition = inRange(range);
    if (condition === undefined) onUnknown(range);
    return condition ?? [];
  });
  return conditions.length === 0 ? undefined : `!(${conditions.join(" || ")})`;
}

/** Returns the name that ingress2gateway gives the HTTPRoute of one host of an Ingress. */
function routeName(ingress: string, host: string): string {
  const name = host.replaceAll(/[^a-zA-Z0-9]+/g, "-").replace(/^-/, "");
  return `${ingress}-${host === "" || host === "*" ? "all-hosts" : name}`;
}
