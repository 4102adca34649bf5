/** What `proxyctl doctor` finds in a dump and in the counters: one finding per question, each with what to do. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Limits } from "@gatewayproxy/admin-api/limits";
import { messagesOf } from "./condition-words.ts";

export interface Finding {
  readonly level: "ok" | "warn" | "fail";
  /** What was looked at. */
  readonly check: string;
  readonly found: string;
  /** What to do; absent where all is well. */
  readonly advice?: string;
}

/** Below it, calls fail so often that somebody should look. */
const poorHealth = 0.5;
const dayMs = 24 * 3_600_000;
/** Time to renew a certificate in. */
const renewalMs = 14 * dayMs;

/** In the order in which a request meets the things. */
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
    return { level: "ok", check, found: `generation ${config.generation} of ${config.source}, without a problem` };
  }
  const place = first.location === undefined ? "" : `${first.location.file}:${first.location.line} `;
  return {
    level: "warn",
    check,
    found: `${counted(config.problems.length, "problem")}; the first: ${place}${first.resource ?? ""} ${first.message}`,
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
      found: `${config.workers.length} run; ${counted(times, "death")} since the start, the last of worker ${last.worker} at ${last.lastAt}: ${last.lastCause}`,
      advice: "see the log of the proxy, module proxy::workers; a worker out of memory: proxyctl profile heap",
    };
  }
  const late = config.workers.filter(({ generation }) => generation !== config.generation);
  if (late.length === 0)
    return { level: "ok", check, found: `${config.workers.length}, all at generation ${config.generation}` };
  return {
    level: "warn",
    check,
    found: `${late.length} of ${config.workers.length} are not yet at generation ${config.generation}`,
    advice: "run it again in a moment; if it stays, see the log of the proxy",
  };
}

function gateways({ gateways: all }: ConfigDump): Finding {
  const check = "gateways";
  const ill = all.filter(({ conditions }) => messagesOf(conditions).length > 0);
  const [first] = ill;
  if (first === undefined) return { level: "ok", check, found: `${all.length}, all programmed` };
  return {
    level: "warn",
    check,
    found: `${ill.length} of ${all.length} are not wholly served; ${first.namespace}/${first.name}: ${messagesOf(first.conditions)[0] ?? ""}`,
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
      found: `${closed.length} of ${binds.length} are not open: ${first?.key ?? ""}: ${first?.fault ?? "unknown"}`,
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
  const all = binds.flatMap(({ listeners: each }) => each.flatMap(({ tls }) => tls?.certificates ?? []));
  const ending = all.filter(({ notAfter }) => notAfter !== undefined && Date.parse(notAfter) - nowMs < renewalMs);
  const [first] = ending;
  if (first === undefined)
    return { level: "ok", check, found: all.length === 0 ? "none are used" : `${all.length}, none ends soon` };
  const hasEnded = Date.parse(first.notAfter ?? "") < nowMs;
  return {
    level: hasEnded ? "fail" : "warn",
    check,
    found: `that of Secret ${first.source} ${hasEnded ? "ended" : "ends"} ${first.notAfter ?? ""}`,
    advice: "renew the Secret; the proxy takes a new one without a restart",
  };
}

function routes({ routes: all }: ConfigDump): Finding {
  const check = "routes";
  const ill = all.filter((route) => messagesOf(route.parents.flatMap(({ conditions }) => conditions)).length > 0);
  const [first] = ill;
  if (first !== undefined) {
    const [message = ""] = messagesOf(first.parents.flatMap(({ conditions }) => conditions));
    return {
      level: "warn",
      check,
      found: `${ill.length} of ${all.length} are not wholly served; ${first.key}: ${message}`,
      advice: "see them all: proxyctl config routes",
    };
  }
  if (all.length === 0)
    return {
      level: "warn",
      check,
      found: "there are none",
      advice: "add an HTTPRoute whose parentRefs name the Gateway",
    };
  return { level: "ok", check, found: `${all.length}, all served` };
}

/** A mistake that costs somebody requests is told before one that costs some of them. */
function conflicts({ conflicts: { rules, leftOut } }: ConfigDump): Finding {
  const check = "route conflicts";
  const all = rules.length + leftOut;
  const first = rules.find(({ isReachable }) => !isReachable) ?? rules[0];
  if (first === undefined) return { level: "ok", check, found: "none" };
  return {
    level: "warn",
    check,
    found: `${counted(all, "rule")}; HTTPRoute ${first.route}: ${first.message}`,
    advice: "give one of them another hostname, path or condition; see them all: proxyctl config all",
  };
}

function policies({ policies: all }: ConfigDump): Finding {
  const check = "policies";
  const targets = all.flatMap((policy) => policy.targets.map((target) => ({ policy, target })));
  const ill = targets.filter(({ target }) => !target.isAttached || messagesOf(target.conditions).length > 0);
  const [first] = ill;
  if (first === undefined)
    return { level: "ok", check, found: all.length === 0 ? "none" : `${all.length}, all attached` };
  const [message = "not attached"] = messagesOf(first.target.conditions);
  return {
    level: "warn",
    check,
    found: `${first.policy.namespace}/${first.policy.name} at ${first.target.target}: ${message}`,
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
  const ill = all
    .flatMap(({ endpoints }) => endpoints)
    .filter(({ health, failsHealthChecks }) => health < poorHealth || failsHealthChecks);
  const [first] = ill;
  if (first === undefined) return { level: "ok", check, found: `${all.length}, every endpoint is well` };
  return {
    level: "warn",
    check,
    found: `${ill.length} of ${counted(all.flatMap(({ endpoints }) => endpoints).length, "endpoint")} ${ill.length === 1 ? "does" : "do"} badly; ${first.endpoint} (${first.address}) of ${first.namespace}/${first.name} has health ${first.health.toFixed(2)}`,
    advice: "see them all: proxyctl config backends -o wide",
  };
}

/** The counters, and the rate limit services behind global limits. */
export function examineLimits({ counters, countersLeftOut, services }: Limits): readonly Finding[] {
  const used = counters.filter(({ remaining, mode }) => remaining === 0 && mode === "Enforce");
  const inUse = counters.length + countersLeftOut;
  // Those nearest to exhaustion are told first: where all that were told are used up, so may be the others.
  const atLeast = countersLeftOut > 0 && used.length === counters.length ? "at least " : "";
  const counterFinding: Finding =
    used.length === 0
      ? { level: "ok", check: "counters", found: `${inUse} in use, none used up` }
      : {
          level: "warn",
          check: "counters",
          found: `${atLeast}${used.length} of ${inUse} are used up and refuse, such as ${used[0]?.policy ?? ""}#${used[0]?.entry ?? 0}`,
          advice: "watch them: proxyctl limits top",
        };
  return [counterFinding, rateLimitServices(services)];
}

function rateLimitServices(services: Limits["services"]): Finding {
  const check = "rate limit services";
  const open = services.filter(({ breaker }) => breaker === "open");
  if (open.length > 0) {
    return {
      level: "fail",
      check,
      found: open.map(({ service, cause }) => `${service}: ${cause ?? "no answer"}`).join("; "),
      advice: "check that the service runs; meanwhile each replica counts by itself",
    };
  }
  const failing = services.filter(({ failuresInARow }) => failuresInARow > 0);
  if (failing.length > 0) {
    return {
      level: "warn",
      check,
      found: failing
        .map(({ service, failuresInARow: calls, lastError }) => {
          return `${service}: ${counted(calls, "call")} failed in a row: ${lastError?.message ?? "no answer"}`;
        })
        .join("; "),
      advice: "check that the service runs and knows the policy's domain; what it does not decide, failureMode does",
    };
  }
  return { level: "ok", check, found: services.length === 0 ? "none are used" : `${services.length}, all answer` };
}

/** `1 problem`, `2 problems`. */
function counted(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
