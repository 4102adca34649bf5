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
    listeners(dump),
    certificates(dump, nowMs),
    routes(dump),
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
    found: `${config.problems.length} problems; the first: ${place}${first.resource ?? ""} ${first.message}`,
    advice: "see them all: proxyctl config all",
  };
}

function workers({ config }: ConfigDump): Finding {
  const check = "workers";
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
    found: `${ill.length} endpoints do badly; ${first.endpoint} (${first.address}) of ${first.namespace}/${first.name} has health ${first.health.toFixed(2)}`,
    advice: "see them all: proxyctl config backends -o wide",
  };
}

/** The counters, and the rate limit services behind global limits. */
export function examineLimits({ counters, services }: Limits): readonly Finding[] {
  const used = counters.filter(({ remaining, mode }) => remaining === 0 && mode === "Enforce");
  const open = services.filter(({ breaker }) => breaker === "open");
  const counterFinding: Finding =
    used.length === 0
      ? { level: "ok", check: "counters", found: `${counters.length} in use, none used up` }
      : {
          level: "warn",
          check: "counters",
          found: `${used.length} of ${counters.length} are used up and refuse, such as ${used[0]?.policy ?? ""}#${used[0]?.entry ?? 0}`,
          advice: "watch them: proxyctl limits top",
        };
  const serviceFinding: Finding =
    open.length === 0
      ? {
          level: "ok",
          check: "rate limit services",
          found: services.length === 0 ? "none are used" : `${services.length}, all answer`,
        }
      : {
          level: "fail",
          check: "rate limit services",
          found: open.map(({ service, cause }) => `${service}: ${cause ?? "no answer"}`).join("; "),
          advice: "check that the service runs; meanwhile each replica counts by itself",
        };
  return [counterFinding, serviceFinding];
}
