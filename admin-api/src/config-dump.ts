/**
 * `GET /config_dump`: what the proxy serves, and what it does not. Lists are in the order in which the proxy uses them,
 * or sorted by key where it uses none. Keys, passwords and the values of headers that carry credentials are replaced by
 * `<redacted>`.
 *
 * `docs/config-dump.schema.json` is generated from this file (`npx vitest run admin-api -u`).
 */
import * as z from "zod";
import { limitUnit, limitWindow, localCounts } from "./limits.ts";
import { conditionSchema, count, type Immutable, objectName, problemSchema, timestamp } from "./shape.ts";

const backendKey = z
  .string()
  .describe(
    "`Service/namespace/name:port`, `Backend/namespace/name` or `address/host:port`; ` over HTTP/2`, ` over TCP` or ` over UDP` follows where routes of these kinds refer to it.",
  );
const routeKey = z
  .string()
  .describe("`namespace/name` of an HTTPRoute; of another kind with the kind, such as `TCPRoute/namespace/name`.");
const listenerKey = z
  .string()
  .describe("`namespace/gateway/listener`; of a ListenerSet `namespace/gateway/set namespace/set/listener`.");
const milliseconds = z.number().min(0);

const version = z.object({
  name: z.literal("gateway-proxy"),
  version: z.string().describe("Version of the proxy, as in package.json."),
  node: z.string(),
  platform: z.string().describe("`linux-x64`."),
  startedAt: timestamp,
});

const config = z.object({
  mode: z.enum(["file", "kubernetes"]),
  source: z.string().describe("The folder, or the cluster, that the resources come from."),
  settings: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .describe("Effective settings of the process, by flag."),
  generation: count.describe("Number of the current configuration. The first one is 1."),
  servingSince: timestamp.optional().describe("When it became current."),
  workers: z
    .array(z.object({ worker: z.int().min(1), generation: count }))
    .describe("The generation that each worker thread serves. They differ only for a moment after a change."),
  workerDeaths: z
    .array(z.object({ worker: z.int().min(1), count, lastAt: timestamp, lastCause: z.string() }))
    .default([])
    .describe("Worker threads that failed since the start. Each is replaced after a second."),
  problems: z.array(problemSchema).describe("Problems of the current resources; empty if there are none."),
  lastRejected: z
    .object({
      at: timestamp,
      generation: count.describe("The generation that stayed current, or that was made of the valid resources."),
      isCurrent: z.boolean().describe("Whether the resources still have these problems."),
      problems: z.array(problemSchema),
      keptAtEarlierVersion: z.array(z.string()).describe("Resources whose last valid version is still used."),
    })
    .optional()
    .describe("The last set of resources with problems; absent if there was none since the start."),
  notServed: z
    .array(
      z.object({
        resource: z.string().describe("`Kind namespace/name`."),
        of: z.string().optional().describe("The part of it, or the parent or target, that is not served."),
        reason: z
          .string()
          .describe("Reason of the condition, `Invalid` for text that cannot be read, or `NotReferenced`."),
        message: z.string(),
      }),
    )
    .describe("Resources, and parts of them, that exist and are not served."),
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
  protocols: z.array(z.string()).describe("The ALPN protocols, preferred first."),
  clientValidation: z.enum(["AllowValidOnly", "AllowInsecureFallback"]).optional(),
});

const bind = z.object({
  key: z.string().describe("`address:port`, `*` for every address; `/udp` follows a port of UDP."),
  address: z.string().optional().describe("Absent: the process's own listen address."),
  port: z.int(),
  transport: z.literal("UDP").optional().describe("Absent: TCP."),
  isOpen: z.boolean(),
  fault: z.string().optional().describe("Why the proxy does not listen on it."),
  listeners: z.array(
    z.object({
      key: listenerKey,
      name: z.string(),
      gateway: objectName,
      protocol: z.enum(["HTTP", "HTTPS", "TLS", "TCP", "UDP"]),
      hostname: z.string().optional().describe("Absent: every host name."),
      tls: tls.optional().describe("Absent: the gateway does not end TLS."),
      routes: z.array(
        z.object({
          route: routeKey,
          hostnames: z.array(z.string()).describe("Empty: every host name of the listener."),
        }),
      ),
    }),
  ),
});

const gateway = z.object({ namespace: z.string(), name: z.string(), conditions: z.array(conditionSchema) });

const listener = z.object({
  gateway: objectName,
  listenerSet: objectName.optional().describe("The ListenerSet that declares it, if any."),
  name: z.string(),
  attachedRoutes: count,
  conditions: z.array(conditionSchema),
});

const pathMatch = z.object({
  kind: z.enum(["Exact", "PathPrefix", "RegularExpression"]),
  value: z.string(),
  yieldsToPrefixes: z
    .literal(true)
    .optional()
    .describe("A regular expression for methods of any gRPC service: prefixes other than `/` have precedence over it."),
});
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
  target: z.string().describe("What it is attached to: `Gateway/default/web`, `HTTPRoute/default/chat#rule`."),
  entry: count.optional().describe("Index of a local limit in the policy's list; absent for the global limit."),
  mode: z.enum(["Enforce", "Shadow"]).describe("Shadow: it counts and denies nothing."),
});

const rule = z.object({
  key: z.string().describe("The key of the route and the number of the rule, or its name: `namespace/name/0`."),
  name: z.string().optional(),
  matches: z.array(match),
  filters: z.array(filter),
  backendRefs: z.array(
    z.object({
      backend: backendKey.optional(),
      weight: count,
      filters: z.array(filter),
      fault: z.string().optional().describe("Why its share of the requests gets a 500 response."),
    }),
  ),
  timeouts: z.object({ requestMs: milliseconds.optional(), backendRequestMs: milliseconds.optional() }).optional(),
  retry: z.object({ codes: z.array(z.int()), attempts: z.int(), backoffMs: milliseconds }).optional(),
  limits: z.array(limitReference).describe("Every limit that applies to requests of this rule."),
  refusedPolicies: z
    .array(z.string())
    .default([])
    .describe("Invalid policies, as `namespace/name`, because of which the rule responds with 503."),
});

const route = z.object({
  key: routeKey,
  namespace: z.string(),
  name: z.string(),
  hostnames: z.array(z.string()).describe("Of all listeners; empty: every host name."),
  listeners: z.array(listenerKey).describe("Listeners that serve it; empty if none does."),
  parents: z.array(
    z.object({
      parent: z.string().describe("`Gateway namespace/name`, with `#section` and `:port` where it names them."),
      conditions: z.array(conditionSchema),
    }),
  ),
  rules: z.array(rule).describe("Empty if no listener serves it."),
});

/** The state of an endpoint. Figures are sums over all workers; averages are weighted by requests. */
export const endpointSchema = z.object({
  type: z.enum(["Service", "Backend"]),
  name: z.string().describe("Name of the Service or the Backend."),
  namespace: z.string(),
  endpoint: z.string().describe("Name of the pod, or `backend`."),
  address: z.string().describe("`host:port`."),
  health: z
    .number()
    .min(0)
    .max(1)
    .describe("From 0 to 1, fully healthy, by the responses to recent attempts; of the worst worker."),
  requests: count.describe("Requests since the start; attempts at the same endpoint count once."),
  inFlight: count.describe("Attempts in progress or in the pending queue."),
  latencyMs: milliseconds
    .optional()
    .describe("Recent average time to the head of the response; absent before the first one."),
  consecutiveFailures: count.describe("Attempts in a row without a response below 500; of the worst worker."),
  timesEjected: count.describe("Number of ejections, of all workers."),
  ejectedForMs: milliseconds
    .optional()
    .describe("Longest remaining time of an ejection; absent if no worker has ejected it."),
  failsHealthChecks: z.boolean(),
});
/** The state of an endpoint. */
export type EndpointState = Immutable<z.output<typeof endpointSchema>>;

const listedProvider = z.object({
  backend: backendKey,
  priority: count,
  weight: count,
  state: z
    .enum(["Available", "OutOfQuota", "Failing"])
    .describe("OutOfQuota gets no requests until its reset, Failing none while another provider is available."),
  forMs: milliseconds.optional().describe("Remaining time of the state; absent if it is Available."),
  consecutiveFailures: count.describe("Failures since the last success, of all workers together."),
});
/** A provider of a Backend with several. */
export type ListedProvider = Immutable<z.output<typeof listedProvider>>;

const backend = z.object({
  key: backendKey,
  type: z.enum(["Service", "Backend"]),
  namespace: z.string(),
  name: z.string(),
  protocol: z.enum(["http", "https"]),
  serverName: z
    .string()
    .optional()
    .describe("Server name that is sent and verified in TLS; absent: the endpoint's host."),
  ai: z
    .object({
      provider: z.string(),
      model: z.string().optional().describe("The model that replaces the one of each request."),
      models: z
        .array(z.object({ name: z.string(), as: z.string().describe("The name that the provider gets.") }))
        .optional()
        .describe("The models that clients may request; absent: any."),
      prices: z
        .record(
          z.string(),
          z.object({
            input: count,
            cachedInput: count.optional(),
            cacheCreation: count.optional(),
            output: count,
          }),
        )
        .optional()
        .describe("Prices of a million tokens by model, in millionths of the currency; absent: there are none."),
      currency: z.string().optional().describe("Currency of the prices; absent: it has no name."),
      pathPrefix: z.string().optional(),
      credentials: z
        .enum(["secret", "passthrough"])
        .describe("Which API key is sent: that of a Secret, or the client's own."),
    })
    .optional(),
  failover: z
    .object({
      firstByteTimeoutMs: milliseconds.optional(),
      streamIdleTimeoutMs: milliseconds.optional(),
      providers: z
        .array(listedProvider)
        .describe("In the order of the Backend; requests prefer lower priorities, and share by weight within one."),
    })
    .optional()
    .describe("Present on a Backend with `ai.providers`."),
  endpoints: z
    .array(endpointSchema)
    .describe(
      "Ready endpoints; without any the response is 503. A Backend with providers has those of its providers, each with the name of its provider.",
    ),
});

const workload = z.object({
  name: z.string().describe("Name of the pod; for an address of a Backend, its host."),
  namespace: z.string(),
  addresses: z.array(z.string()).describe("`host:port`."),
  backends: z.array(backendKey).describe("Backends of which it is an endpoint."),
});

const service = z.object({
  namespace: z.string(),
  name: z.string(),
  ports: z.array(z.object({ name: z.string().optional(), port: z.int(), appProtocol: z.string().optional() })),
  readyEndpoints: count.describe("Of all its slices and ports."),
  backends: z.array(backendKey).describe("Backends of the configuration that refer to it; empty if no rule does."),
});

const localEntry = z.object({
  counts: localCounts,
  amount: count,
  burst: count,
  unit: limitUnit.optional().describe("Absent for `concurrent` and `connections`."),
  every: count.default(1).describe("Length of a window in units."),
  ...limitWindow,
  bucket: z.string().optional().describe("Counter that the entries of this name in the namespace share."),
  shareAcrossReplicas: z.boolean().default(false).describe("Whether the amounts are for all replicas together."),
  name: z.string().optional().describe("Name of the entry; absent if its index is its name."),
  key: z.string().optional().describe("CEL expression; each value has its own counter."),
  when: z.string().optional().describe("CEL condition; the entry applies unless it is false."),
  amountFrom: z.string().optional().describe("CEL expression of the amount, in place of `amount`."),
  cost: z.string().optional().describe("CEL expression of the units that a request or its response costs."),
  reserve: z
    .enum(["Estimate"])
    .optional()
    .describe("Requests hold an estimate of their cost until their response is charged; absent: they hold nothing."),
  unpriced: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe("Whether requests for models without a price are allowed; absent unless spend is counted."),
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
      when: z.string().optional().describe("Condition; absent: the descriptor applies to every request."),
      cost: z.string().optional(),
      limitOverride: z
        .object({
          requestsPerUnit: count
            .optional()
            .describe("Amount, or with requestsPerUnitFrom that of requests for which it has no value."),
          requestsPerUnitFrom: z.string().optional().describe("Expression for the amount."),
          unit: z.string(),
        })
        .optional(),
      reserves: z
        .boolean()
        .optional()
        .describe("Whether the check counts an estimate, which the charge replaces; absent: it counts no tokens."),
    }),
  ),
  fallback: z.array(localEntry),
});

const conflictWinner = z.object({
  listener: listenerKey.describe("The listener of both rules."),
  hostname: z.string().optional().describe("Absent: every host name of the listener."),
  route: routeKey.optional().describe("Absent if another listener has the host name."),
  rule: z.string().optional().describe("Key of the rule that takes precedence."),
  takenBy: listenerKey.optional().describe("The listener that has the host name instead."),
  decidedBy: z
    .enum(["OlderRoute", "NameOrder", "RuleOrder", "MoreSpecificHostname", "MoreSpecificListener"])
    .describe("Why the winner takes precedence."),
  extent: z
    .enum(["Whole", "Overlap"])
    .describe("Whole: it gets all requests of a match. Overlap: it gets those that both match."),
});

const conflicts = z.object({
  rules: z.array(
    z.object({
      route: routeKey,
      rule: z.string().describe("Key of the rule that gets fewer requests than its matches select."),
      isReachable: z.boolean().describe("False: no request can reach it on any listener."),
      winners: z.array(conflictWinner).describe("At most 4."),
      winnersLeftOut: count,
      message: z.string().describe("The conflict in one sentence."),
    }),
  ),
  leftOut: count.describe("Number of further rules; at most 500 are listed."),
  unexaminedHostnames: count.describe(
    "Number of host names whose routes were not compared, since that would take too long.",
  ),
});

const denied = z.object({
  format: z.enum(["Text", "Problem", "Provider"]),
  status: z.int(),
  body: z.string().optional().describe("Text of the response; absent: that of the gateway, or of the service."),
  headers: z.array(z.object({ name: z.string(), value: z.string() })).describe("Further headers, in lower case."),
});

const authentication = z.object({
  mode: z.enum(["Required", "Optional"]),
  forward: z.enum(["Keep", "Remove"]).describe("Whether the backend gets the credentials."),
  jwt: z
    .array(
      z.object({
        issuer: z.string(),
        audiences: z.array(z.string()).optional().describe("Absent: the audience is not compared."),
        keys: z
          .object({
            source: z.enum(["uri", "configuration"]).describe("`configuration`: a ConfigMap or the policy itself."),
            uri: z.string().optional().describe("Without secrets of its query."),
            count: count.describe("Public keys in use, of the worker with fewest. With 0, no token can be verified."),
            readAt: timestamp.optional().describe("When all workers had last read the URL; absent before."),
            lastError: z
              .object({ message: z.string(), at: timestamp })
              .optional()
              .describe("The last read that failed, also if a later one succeeded."),
          })
          .describe("Where the public keys are from, and their state. The keys are not part of the dump."),
      }),
    )
    .optional()
    .describe("Issuers of tokens; absent: tokens are not read."),
  apiKeys: z
    .object({
      from: z.array(z.object({ header: z.string(), prefix: z.string().optional() })),
      count: count.describe("Number of keys."),
      secrets: z.array(z.string()).describe("`namespace/name` of the Secrets that hold them."),
    })
    .optional()
    .describe("API keys, without the keys and their hashes; absent: they are not read."),
});

const policy = z.object({
  namespace: z.string(),
  name: z.string(),
  targets: z.array(
    z.object({
      target: z.string().describe("`HTTPRoute/namespace/name`, another kind of route or `Gateway/…`, with `#section`."),
      isAttached: z.boolean().describe("Whether the policy applies to requests of the target."),
      conditions: z.array(conditionSchema),
    }),
  ),
  authentication: authentication
    .optional()
    .describe("The authentication as enforced; absent if the policy has none, or is not attached to a rule."),
  local: z.array(localEntry).describe("Local limits as written, in order."),
  global: globalLimit.optional().describe("The global limit as enforced; absent if there is none."),
  headers: z
    .array(z.enum(["XRateLimit", "Ietf", "OpenAI"]))
    .default(["XRateLimit"])
    .describe("Families of response headers that show its limits."),
  denied: denied.default({ format: "Text", status: 429, headers: [] }).describe("Response to requests that it denies."),
});

/** The response of `GET /config_dump`. */
export const configDumpSchema = z.object({
  version,
  config,
  binds: z.array(bind).describe("Socket addresses, sorted, and the listeners that share each."),
  gateways: z
    .array(gateway)
    .default([])
    .describe("Every Gateway of this proxy's class, with the conditions that this process computed."),
  listeners: z.array(listener).describe("Every listener that is declared, served or not."),
  routes: z.array(route).describe("Every route of any kind with such a Gateway as parent, served or not."),
  conflicts: conflicts
    .default({ rules: [], leftOut: 0, unexaminedHostnames: 0 })
    .describe("Rules that match the same requests as rules with precedence over them."),
  backends: z.array(backend).describe("Every backend that rules and policies name, sorted by key."),
  workloads: z.array(workload).describe("The endpoints of all backends, each once."),
  services: z.array(service).describe("Every known Service."),
  policies: z.array(policy).describe("Every ProxyPolicy, attached or not."),
});
/** The response of `GET /config_dump`. */
export type ConfigDump = Immutable<z.output<typeof configDumpSchema>>;
/** A socket address and its listeners. */
export type DumpedBind = ConfigDump["binds"][number];
/** A Gateway with its conditions. */
export type DumpedGateway = ConfigDump["gateways"][number];
/** A listener, served or not. */
export type DumpedListener = ConfigDump["listeners"][number];
/** A route, served or not. */
export type DumpedRoute = ConfigDump["routes"][number];
/** A rule of a route. */
export type DumpedRule = DumpedRoute["rules"][number];
/** A backend and its endpoints. */
export type DumpedBackend = ConfigDump["backends"][number];
/** An endpoint and the backends that it belongs to. */
export type DumpedWorkload = ConfigDump["workloads"][number];
/** A Kubernetes Service. */
export type DumpedService = ConfigDump["services"][number];
/** A ProxyPolicy, attached or not. */
export type DumpedPolicy = ConfigDump["policies"][number];
