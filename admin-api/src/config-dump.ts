/**
 * `GET /config_dump`: what the proxy serves, as it serves it, and what it does not. Lists are in the order in which the
 * proxy uses them, or sorted by key where it uses none. No secret is in it: keys, passwords and the values of headers
 * that carry credentials read `<redacted>`.
 *
 * `docs/config-dump.schema.json` is made from this file (`npx vitest run admin-api -u` writes it).
 */
import * as z from "zod";
import { conditionSchema, count, type Immutable, objectName, problemSchema, timestamp } from "./shape.ts";

const backendKey = z
  .string()
  .describe("`Service/namespace/name:port`, `Backend/namespace/name` or `address/host:port`.");
const routeKey = z.string().describe("`namespace/name` of the HTTPRoute.");
const listenerKey = z
  .string()
  .describe("`namespace/gateway/listener`; of a ListenerSet `namespace/gateway/set namespace/set/listener`.");
const milliseconds = z.number().min(0);

const version = z.object({
  name: z.literal("gateway-proxy"),
  version: z.string().describe("Of the proxy, as in package.json."),
  node: z.string(),
  platform: z.string().describe("`linux-x64`."),
  startedAt: timestamp,
});

const config = z.object({
  mode: z.enum(["file", "kubernetes"]),
  source: z.string().describe("The folder, or the cluster, that the resources come from."),
  settings: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .describe("Settings of the process, by flag, as they are in effect."),
  generation: count.describe("Counts the configurations that were put in force, from 1; the one that serves."),
  servingSince: timestamp.optional().describe("When it was put in force."),
  workers: z
    .array(z.object({ worker: z.int().min(1), generation: count }))
    .describe("The generation that each worker thread serves; the same in all but for a moment."),
  workerDeaths: z
    .array(z.object({ worker: z.int().min(1), count, lastAt: timestamp, lastCause: z.string() }))
    .default([])
    .describe("Worker threads that ended unasked since the start; another takes the place of each after a second."),
  problems: z
    .array(problemSchema)
    .describe("What is wrong with the resources as they are now; empty when all is well."),
  lastRejected: z
    .object({
      at: timestamp,
      generation: count.describe("The generation that served on, or was made of what was sound."),
      isCurrent: z.boolean().describe("Whether the resources are still like that."),
      problems: z.array(problemSchema),
      keptAtEarlierVersion: z.array(z.string()).describe("Resources of which the last good version stayed in force."),
    })
    .optional()
    .describe("The last set of resources that was not sound as a whole; absent where there was none since the start."),
  notServed: z
    .array(
      z.object({
        resource: z.string().describe("`Kind namespace/name`."),
        of: z.string().optional().describe("Which part of it, or at which parent or target."),
        reason: z
          .string()
          .describe("Reason of the condition, `Invalid` for text that cannot be read, or `NotReferenced`."),
        message: z.string(),
      }),
    )
    .describe("Resources, and parts of them, that are there and are not served."),
});

const tls = z.object({
  certificates: z.array(
    z.object({
      source: z.string().describe("`namespace/name` of the Secret."),
      hostnames: z.array(z.string()),
      notAfter: timestamp.optional(),
      fingerprint256: z.string().optional(),
    }),
  ),
  minVersion: z.string(),
  maxVersion: z.string(),
  protocols: z.array(z.string()).describe("What ALPN offers, best first."),
  clientValidation: z.enum(["AllowValidOnly", "AllowInsecureFallback"]).optional(),
});

const bind = z.object({
  key: z.string().describe("`address:port`, `*` for every address."),
  address: z.string().optional().describe("Absent: the process's own listen address."),
  port: z.int(),
  isOpen: z.boolean(),
  fault: z.string().optional().describe("Why it is not open."),
  listeners: z.array(
    z.object({
      key: listenerKey,
      name: z.string(),
      gateway: objectName,
      protocol: z.enum(["HTTP", "HTTPS"]),
      hostname: z.string().optional().describe("Absent: every host."),
      tls: tls.optional(),
      routes: z.array(
        z.object({ route: routeKey, hostnames: z.array(z.string()).describe("Empty: every host of the listener.") }),
      ),
    }),
  ),
});

const gateway = z.object({ namespace: z.string(), name: z.string(), conditions: z.array(conditionSchema) });

const listener = z.object({
  gateway: objectName,
  listenerSet: objectName.optional().describe("Where a ListenerSet declares it."),
  name: z.string(),
  attachedRoutes: count,
  conditions: z.array(conditionSchema),
});

const pathMatch = z.object({ kind: z.enum(["Exact", "PathPrefix", "RegularExpression"]), value: z.string() });
const valueMatch = z.object({ kind: z.enum(["Exact", "RegularExpression"]), name: z.string(), value: z.string() });
const match = z.object({
  path: pathMatch,
  method: z.string().optional(),
  headers: z.array(valueMatch),
  query: z.array(valueMatch),
});

const filter = z
  .looseObject({
    kind: z.enum([
      "RequestHeaderModifier",
      "ResponseHeaderModifier",
      "URLRewrite",
      "RequestRedirect",
      "RequestMirror",
      "CORS",
    ]),
  })
  .describe("A filter and its fields.");

const limitReference = z.object({
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  target: z.string().describe("Where it is attached: `Gateway/default/web`, `HTTPRoute/default/chat#rule`."),
  entry: count.optional().describe("Of a local limit: its place in the policy's list; absent for the global limit."),
  mode: z.enum(["Enforce", "Shadow"]).describe("Shadow: it counts and never refuses."),
});

const rule = z.object({
  key: z.string().describe("`namespace/name/0`, or its name in place of the number."),
  name: z.string().optional(),
  matches: z.array(match),
  filters: z.array(filter),
  backendRefs: z.array(
    z.object({
      backend: backendKey.optional(),
      weight: count,
      filters: z.array(filter),
      fault: z.string().optional().describe("Why its share of the requests is answered with 500."),
    }),
  ),
  timeouts: z.object({ requestMs: milliseconds.optional(), backendRequestMs: milliseconds.optional() }).optional(),
  retry: z.object({ codes: z.array(z.int()), attempts: z.int(), backoffMs: milliseconds }).optional(),
  limits: z.array(limitReference).describe("Every limit that a request of this rule is under."),
  refusedPolicies: z
    .array(z.string())
    .default([])
    .describe("Policies that cannot be read and close the rule, as `namespace/name`: it answers 503."),
});

const route = z.object({
  key: routeKey,
  namespace: z.string(),
  name: z.string(),
  hostnames: z.array(z.string()).describe("Over all listeners; empty: every host."),
  listeners: z.array(listenerKey).describe("Where it is served; empty: nowhere."),
  parents: z.array(
    z.object({
      parent: z.string().describe("`Gateway namespace/name`, with `#section` and `:port` where it names them."),
      conditions: z.array(conditionSchema),
    }),
  ),
  rules: z.array(rule).describe("Empty where it is served nowhere."),
});

/** One row of `proxyctl config backends`. Figures are sums, and averages weighted by requests, over all workers. */
export const endpointSchema = z.object({
  type: z.enum(["Service", "Backend"]),
  name: z.string().describe("Of the Service or the Backend."),
  namespace: z.string(),
  endpoint: z.string().describe("Name of the pod, or `backend`."),
  address: z.string().describe("`host:port`."),
  health: z
    .number()
    .min(0)
    .max(1)
    .describe("1 is fully healthy: recent calls were answered well; on the worst worker."),
  requests: count.describe("Requests since the start, each once however often it was tried here."),
  inFlight: count.describe("Calls that are under way or wait for a connection."),
  latencyMs: milliseconds
    .optional()
    .describe("Recent average until the head of the answer; absent before the first one."),
  consecutiveFailures: count.describe("Calls in a row without an answer below 500; on the worst worker."),
  timesEjected: count.describe("How often it was left out for failing, on all workers."),
  ejectedForMs: milliseconds.optional().describe("Left out by some worker for so long still; absent when all use it."),
  failsHealthChecks: z.boolean(),
});
export type EndpointState = Immutable<z.output<typeof endpointSchema>>;

const backend = z.object({
  key: backendKey,
  type: z.enum(["Service", "Backend"]),
  namespace: z.string(),
  name: z.string(),
  protocol: z.enum(["http", "https"]),
  serverName: z.string().optional().describe("Name that is sent and verified in TLS; absent: the endpoint's host."),
  ai: z
    .object({
      provider: z.string(),
      model: z.string().optional(),
      pathPrefix: z.string().optional(),
      credentials: z
        .enum(["secret", "passthrough"])
        .describe("Whose key is sent: one of a Secret, or the client's own."),
    })
    .optional(),
  endpoints: z.array(endpointSchema).describe("Ready ones; without any the answer is 503."),
});

const workload = z.object({
  name: z.string().describe("Of the pod; of an address that a Backend names, its host."),
  namespace: z.string(),
  addresses: z.array(z.string()).describe("`host:port`."),
  backends: z.array(backendKey).describe("Backends that it is an endpoint of."),
});

const service = z.object({
  namespace: z.string(),
  name: z.string(),
  ports: z.array(z.object({ name: z.string().optional(), port: z.int(), appProtocol: z.string().optional() })),
  readyEndpoints: count.describe("Over all its slices and ports."),
  backends: z
    .array(backendKey)
    .describe("Backends of the configuration that it stands behind; empty: no rule names it."),
});

const localEntry = z.object({
  counts: z.enum(["requests", "tokens"]),
  amount: count,
  burst: count,
  unit: z.enum(["Seconds", "Minutes", "Hours"]),
  key: z.string().optional().describe("CEL; one counter per value."),
  mode: z.enum(["Enforce", "Shadow"]),
});

const globalLimit = z.object({
  service: backendKey,
  domain: z.string(),
  timeoutMs: milliseconds,
  failureMode: z.enum(["Local", "Open", "Closed"]),
  mode: z.enum(["Enforce", "Shadow"]),
  descriptors: z.array(
    z.object({
      index: count,
      counts: z.enum(["requests", "tokens"]),
      entries: z.array(z.object({ key: z.string(), expression: z.string() })),
      cost: z.string().optional(),
      limitOverride: z.object({ requestsPerUnit: count, unit: z.string() }).optional(),
    }),
  ),
  fallback: z.array(localEntry),
});

const conflictWinner = z.object({
  listener: listenerKey.describe("Where both rules are."),
  hostname: z.string().optional().describe("Absent: every host of the listener."),
  route: routeKey.optional().describe("Absent where another listener has the host."),
  rule: z.string().optional().describe("Key of the rule that goes first."),
  takenBy: listenerKey.optional().describe("The listener that has the host instead."),
  decidedBy: z
    .enum(["OlderRoute", "NameOrder", "RuleOrder", "MoreSpecificHostname", "MoreSpecificListener"])
    .describe("What puts the winner first."),
  extent: z
    .enum(["Whole", "Overlap"])
    .describe("Whole: it gets all requests of a match there. Overlap: those that it matches, too."),
});

const conflicts = z.object({
  rules: z.array(
    z.object({
      route: routeKey,
      rule: z.string().describe("Key of the rule that gets fewer requests than its matches say."),
      isReachable: z.boolean().describe("False: no request can reach it, at any listener."),
      winners: z.array(conflictWinner).describe("At most 4."),
      winnersLeftOut: count,
      message: z.string().describe("All of it in a sentence."),
    }),
  ),
  leftOut: count.describe("Rules beyond the 500 that are listed."),
  unexaminedHostnames: count.describe("Hostnames whose routes were not compared, as that would take too long."),
});

const policy = z.object({
  namespace: z.string(),
  name: z.string(),
  targets: z.array(
    z.object({
      target: z.string().describe("`HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section`."),
      isAttached: z.boolean().describe("Whether requests there are under the policy."),
      conditions: z.array(conditionSchema),
    }),
  ),
  local: z.array(localEntry).describe("As written, in their order."),
  global: globalLimit.optional().describe("As it is enforced; absent where it is nowhere."),
});

export const configDumpSchema = z.object({
  version,
  config,
  binds: z.array(bind).describe("Socket addresses, sorted, and the listeners that share each."),
  gateways: z
    .array(gateway)
    .default([])
    .describe("Every Gateway of ours, with its conditions as this process has them."),
  listeners: z.array(listener).describe("Every listener that is declared, served or not."),
  routes: z.array(route).describe("Every HTTPRoute that names a Gateway of ours, served or not."),
  conflicts: conflicts
    .default({ rules: [], leftOut: 0, unexaminedHostnames: 0 })
    .describe("Rules that others go before though they match the same requests."),
  backends: z.array(backend).describe("What rules and policies name, by key."),
  workloads: z.array(workload).describe("The endpoints of all backends, each once."),
  services: z.array(service).describe("Every Service that is known."),
  policies: z.array(policy).describe("Every ProxyPolicy, attached or not."),
});
export type ConfigDump = Immutable<z.output<typeof configDumpSchema>>;
export type DumpedBind = ConfigDump["binds"][number];
export type DumpedGateway = ConfigDump["gateways"][number];
export type DumpedListener = ConfigDump["listeners"][number];
export type DumpedRoute = ConfigDump["routes"][number];
export type DumpedRule = DumpedRoute["rules"][number];
export type DumpedBackend = ConfigDump["backends"][number];
export type DumpedWorkload = ConfigDump["workloads"][number];
export type DumpedService = ConfigDump["services"][number];
export type DumpedPolicy = ConfigDump["policies"][number];
