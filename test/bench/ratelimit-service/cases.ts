/**
 * The compared cases: calls of one descriptor, over one connection or several, that Redis counts or that are known to
 * be over the limit.
 */

export interface ServiceCase {
  readonly name: string;
  readonly title: string;
  readonly connections: number;
  /** Concurrent calls on one connection. */
  readonly streams: number;
  /** Different counters; each has its own load generator, which share the connections. */
  readonly keys: number;
  /** `counted`: within the limit, so Redis counts. `denied`: over it, so the over-limit cache responds. */
  readonly kind: "counted" | "denied";
}

const redis: ServiceCase = {
  name: "redis-1x32",
  title: "Redis",
  connections: 1,
  streams: 32,
  keys: 1,
  kind: "counted",
};

export const serviceCases: readonly ServiceCase[] = [
  { ...redis, name: "redis-1x1", streams: 1 },
  redis,
  { ...redis, name: "redis-8x16", connections: 8, streams: 16 },
  { ...redis, name: "redis-8x16-keys", title: "Redis, 8 counters", connections: 8, streams: 16, keys: 8 },
  { ...redis, name: "over-1x32", title: "over-limit cache", kind: "denied" },
  { ...redis, name: "over-8x16", title: "over-limit cache", connections: 8, streams: 16, kind: "denied" },
];

/** The limits of both services: one that no run reaches, and one that is reached at once. */
export const limitFile = `
domain: bench
descriptors:
  - key: counted
    rate_limit: {unit: day, requests_per_unit: 4000000000}
  - key: denied
    rate_limit: {unit: day, requests_per_unit: 1}
`;

/** The descriptor of call number `index` of a case. */
export function descriptorOf({ kind }: ServiceCase, index: number): { readonly key: string; readonly value: string } {
  return { key: kind, value: `client-${index}` };
}
