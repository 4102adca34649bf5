/** The findings of `proxyctl doctor` in a dump and in the counters, with advice for each problem. */
import { routeTitle } from "@gatewayproxy/runtime/route-key";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import { saveCondition } from "@gatewayproxy/admin-api/save-condition";
import { messagesOf } from "./condition-words.ts";

/** The result of one check. */
export interface Finding {
  readonly level: "ok" | "warn" | "fail";
  /** The subject of the check. */
  readonly check: string;
  readonly found: string;
  /** The advice to the user; absent if there is no problem. */
  readonly advice?: string;
}

/** Below this health, attempts fail so often that the endpoint needs attention. */
const poorHealth = 0.5;
const dayMs = 24 * 3_600_000;
/** The time before its expiry at which a certificate should be renewed, in ms. */
const renewalMs = 14 * dayMs;

/** Returns the findings, in the order in which a request passes through the objects. */
export function examineDump(dump: ConfigDump, nowMs: number): readonly Finding[] {
  return [
    configuration(dump),
    workers(dump),
    gateways(dump),
    listeners(dump),
    certificates(dump, nowMs),
    routes(dump),
    conflicts(dump),
    policies(dump),
    backends(dump),
  ];
}

function configuration({ config }: ConfigDump): Finding {
  const [first] = config.problems;
  const check = "configuration";
  if (first === undefined) {
    return { level: "ok", check, found: `generation ${config.generation} of ${config.source}, without problems` };
  }
  const place = first.location === undefined ? "" : `${first.location.file}:${first.location.line} `;
  return {
    level: "warn",
    check,
    found: `${pluralize(config.problems.length, "problem")}; the first: ${place}${first.resource ?? ""} ${first.message}`,
    advice: "see them all: proxyctl config all",
  };
}

function workers({ config }: ConfigDump): Finding {
  const check = "workers";
  const { workerDeaths } = config;
  const [last] = workerDeaths.toSorted((a, b) => Date.parse(b.lastAt) - Date.parse(a.lastAt));
  if (last !== undefined) {
    const times = workerDeaths.reduce((all, { count }) => all + count, 0);
    return {
      level: "warn",
      check,
      found: `${config.workers.length} run; ${pluralize(times, "failure")} since the start, the last of worker ${last.worker} at ${last.lastAt}: ${last.lastCause}`,
      advice: "see the log of the proxy, module proxy::workers; a worker out of memory: proxyctl profile heap",
    };
  }
  const late = config.workers.filter(({ generation }) => generation !== config.generation);
  if (late.length === 0) {
    return { level: "ok", check, found: `${config.workers.length}, all at generation ${config.generation}` };
  }
  return {
    level: "warn",
    check,
    found: `${late.length} of ${config.workers.length} are not yet at generation ${config.generation}`,
    advice: "run it again in a moment; if it stays, see the log of the proxy",
  };
}

function gateways({ gateways: all }: ConfigDump): Finding {
  const check = "gateways";
  const affected = all.filter(({ conditions }) => messagesOf(conditions).length > 0);
  const [first] = affected;
  if (first === undefined) return { level: "ok", check, found: `${all.length}, all programmed` };
  return {
    level: "warn",
    check,
    found: `${affected.length} of ${all.length} are not fully served; ${objectKey(first)}: ${messagesOf(first.conditions)[0] ?? ""}`,
    advice: "see them all: proxyctl config all",
  };
}

function listeners({ binds }: ConfigDump): Finding {
  const check = "listeners";
  const closed = binds.filter(({ isOpen }) => !isOpen);
  if (closed.length > 0) {
    const [first] = closed;
    return {
      level: "fail",
      check,
      found: `${closed.length} of ${binds.length} do not listen: ${first?.key ?? ""}: ${first?.fault ?? "unknown"}`,
      advice: "free the port, or give the listener another one",
    };
  }
  if (binds.length === 0) {
    return {
      level: "fail",
      check,
      found: "there are none",
      advice: "add a Gateway of class gateway-proxy with a listener",
    };
  }
  return { level: "ok", check, found: `open: ${binds.map(({ key }) => key).join(", ")}` };
}

function certificates({ binds }: ConfigDump, nowMs: number): Finding {
  const check = "certificates";
  const all = binds.flatMap(({ listeners: onBind }) => onBind.flatMap(({ tls }) => tls?.certificates ?? []));
  const ending = all.filter(({ notAfter }) => notAfter !== undefined && Date.parse(notAfter) - nowMs < renewalMs);
  const [first] = ending;
  if (first === undefined) {
    return { level: "ok", check, found: all.length === 0 ? "none are used" : `${all.length}, none expires soon` };
  }
  const hasEnded = Date.parse(first.notAfter ?? "") < nowMs;
  return {
    level: hasEnded ? "fail" : "warn",
    check,
    found: `that of Secret ${first.source} ${hasEnded ? "expired" : "expires"} ${first.notAfter ?? ""}`,
    advice: "renew the Secret; the proxy takes a new one without a restart",
  };
}

function routes({ routes: all }: ConfigDump): Finding {
  const check = "routes";
  const affected = all.filter((route) => messagesOf(route.parents.flatMap(({ conditions }) => conditions)).length > 0);
  const [first] = affected;
  if (first !== undefined) {
    const [message = ""] = messagesOf(first.parents.flatMap(({ conditions }) => conditions));
    return {
      level: "warn",
      check,
      found: `${affected.length} of ${all.length} are not fully served; ${first.key}: ${message}`,
      advice: "see them all: proxyctl config routes",
    };
  }
  if (all.length === 0) {
    return {
      level: "warn",
      check,
      found: "there are none",
      advice: "add an HTTPRoute or a GRPCRoute whose parentRefs name the Gateway",
    };
  }
  return { level: "ok", check, found: `${all.length}, all served` };
}

/** Unreachable rules are reported before those that lose some requests. */
function conflicts({ conflicts: { rules, leftOut } }: ConfigDump): Finding {
  const check = "route conflicts";
  const all = rules.length + leftOut;
  const first = rules.find(({ isReachable }) => !isReachable) ?? rules[0];
  if (first === undefined) return { level: "ok", check, found: "none" };
  return {
    level: "warn",
    check,
    found: `${pluralize(all, "rule")}; ${routeTitle(first.route)}: ${first.message}`,
    advice: "give one of them another hostname, path or condition; see them all: proxyctl config all",
  };
}

function policies({ policies: all }: ConfigDump): Finding {
  const check = "policies";
  const targets = all.flatMap((policy) => policy.targets.map((target) => ({ policy, target })));
  const affected = targets.filter(({ target }) => !target.isAttached || messagesOf(target.conditions).length > 0);
  const [first] = affected;
  if (first === undefined) {
    return { level: "ok", check, found: all.length === 0 ? "none" : `${all.length}, all attached` };
  }
  const [message = "not attached"] = messagesOf(first.target.conditions);
  return {
    level: "warn",
    check,
    found: `${objectKey(first.policy)} at ${first.target.target}: ${message}`,
    advice: "see them all: proxyctl config policies -o wide",
  };
}

function backends({ backends: all }: ConfigDump): Finding {
  const check = "backends";
  const empty = all.filter(({ endpoints }) => endpoints.length === 0);
  if (empty.length > 0) {
    return {
      level: "fail",
      check,
      found: `without a ready endpoint: ${empty.map(({ key }) => key).join(", ")}`,
      advice: "check that their pods run and are ready; requests get 503",
    };
  }
  const parked = all.flatMap(({ failover }) => failover?.providers.filter(({ state }) => state !== "Available") ?? []);
  if (parked[0] !== undefined) {
    const { backend, state } = parked[0];
    const names = new Set(parked.map((each) => each.backend));
    return {
      level: "warn",
      check,
      found: `${pluralize(names.size, "provider")} without requests: ${backend} is ${state === "OutOfQuota" ? "out of quota" : "failing"}`,
      advice: "other providers get the requests; see them all: proxyctl config backends -o wide",
    };
  }
  const affected = all
    .flatMap(({ endpoints }) => endpoints)
    .filter(({ health, failsHealthChecks }) => health < poorHealth || failsHealthChecks);
  const [first] = affected;
  if (first === undefined) return { level: "ok", check, found: `${all.length}, every endpoint is healthy` };
  return {
    level: "warn",
    check,
    found: `${affected.length} of ${pluralize(all.flatMap(({ endpoints }) => endpoints).length, "endpoint")} ${affected.length === 1 ? "is" : "are"} unhealthy; ${first.endpoint} (${first.address}) of ${objectKey(first)} has health ${first.health.toFixed(2)}`,
    advice: "see them all: proxyctl config backends -o wide",
  };
}

/** Returns the findings on counters and rate limit services. */
export function examineLimits({ at, counters, countersLeftOut, state, services }: Limits): readonly Finding[] {
  const used = counters.filter(({ remaining, mode }) => remaining === 0 && mode === "Enforce");
  const inUse = counters.length + countersLeftOut;
  // Used-up counters are listed first. If all listed ones are used up, others may be too.
  const atLeast = countersLeftOut > 0 && used.length === counters.length ? "at least " : "";
  const counterFinding: Finding =
    used.length === 0
      ? { level: "ok", check: "counters", found: `${inUse} in use, none used up` }
      : {
          level: "warn",
          check: "counters",
          found: `${atLeast}${used.length} of ${inUse} are used up and deny requests, such as ${used[0]?.policy ?? ""}#${used[0]?.entry ?? 0}`,
          advice: "watch them: proxyctl limits top",
        };
  return [counterFinding, stateDirectory(state, at), rateLimitServices(services)];
}

function stateDirectory(state: Limits["state"], at: string): Finding {
  const check = "saved counters";
  if (state === undefined) return { level: "ok", check, found: "none: counters start from zero with the proxy" };
  const { directory, savedUntil, bytes, failures, lastError } = state;
  const condition = saveCondition(state, at);
  const until = savedUntil === undefined ? "not saved yet" : `saved until ${savedUntil}`;
  if (condition === "failing") {
    return {
      level: "fail",
      check,
      found: `${directory}: ${until}; ${pluralize(failures, "attempt")} failed since the start, the last: ${lastError?.message ?? "unknown"}`,
      advice:
        "check the free space and the permissions of the directory; attempts are repeated, and a restart loses the rest",
    };
  }
  const found = `${directory}: ${until}, ${bytes} bytes`;
  if (condition === "late") {
    return { level: "warn", check, found, advice: "check the load of the node and the latency of the disk" };
  }
  const past = lastError === undefined ? "" : `; failed until ${lastError.at}: ${lastError.message}`;
  return { level: "ok", check, found: `${found}${past}` };
}

function rateLimitServices(services: Limits["services"]): Finding {
  const check = "rate limit services";
  const open = services.filter(({ breaker }) => breaker === "open");
  if (open.length > 0) {
    return {
      level: "fail",
      check,
      found: open.map(({ service, cause }) => `${service}: ${cause ?? "no response"}`).join("; "),
      advice: "check that the service runs; until then each replica counts by itself",
    };
  }
  const failing = services.filter(({ failuresInARow }) => failuresInARow > 0);
  if (failing.length > 0) {
    return {
      level: "warn",
      check,
      found: failing
        .map(({ service, failuresInARow: calls, lastError }) => {
          return `${service}: ${pluralize(calls, "call")} failed in a row: ${lastError?.message ?? "no response"}`;
        })
        .join("; "),
      advice: "check that the service runs and knows the policy's domain; failureMode decides while it does not",
    };
  }
  if (services.length === 0) return { level: "ok", check, found: "none are used" };
  const found = `${services.length}, all available: ${services.map((service) => `${service.service} is ${programOf(service)}`).join(", ")}`;
  const missing = [...new Set(services.flatMap(missingFeaturesOf))];
  return { level: "ok", check, found, ...(missing.length > 0 && { advice: missing.join("; ") }) };
}

const programNames = {
  GatewayProxy: "the service of this project",
  EnvoyRatelimit: "envoyproxy/ratelimit",
  Limitador: "Limitador",
  Unknown: "an unknown program",
} as const;

function programOf({ identity }: RateLimitService): string {
  if (identity === undefined) return "not yet identified";
  return `${programNames[identity.program]}${identity.version === undefined ? "" : ` ${identity.version}`}`;
}

/** The missing features of each program. docs/global-limits.md, "Bring your service", has the whole table. */
const missingFeatures = {
  GatewayProxy: [],
  EnvoyRatelimit: [
    "envoyproxy/ratelimit counts a refund as one more hit: leave refundOn out",
    "envoyproxy/ratelimit keeps estimates of reserve counted, also those of denied requests, until the window ends",
    "envoyproxy/ratelimit passes a check of a token budget that is exactly used up",
    "envoyproxy/ratelimit sends no headers of its own unless LIMIT_RESPONSE_HEADERS_ENABLED is set; the proxy makes them",
    "versions of envoyproxy/ratelimit before 2026-03-17 allow a request whose quotas are all used up",
  ],
  Limitador: [
    "Limitador needs hitsMode: Kuadrant",
    "Limitador takes no refunds and no limitOverride, and knows no quota mode",
    "Limitador keeps estimates of reserve counted until the window ends",
    "Limitador reports no limits: give the policy a fallback",
  ],
  Unknown: ["try zero-hit checks, refunds, limitOverride and headers with an unknown service"],
} as const;

function missingFeaturesOf({ identity }: RateLimitService): readonly string[] {
  return identity === undefined ? [] : missingFeatures[identity.program];
}

/** Formats `1 problem`, `2 problems`. */
function pluralize(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
