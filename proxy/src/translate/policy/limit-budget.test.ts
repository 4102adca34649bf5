/** Limits and expressions of policies have bounds in each process, which namespaces share. */
import { expect, test } from "vitest";
import { parseResource } from "../../api/parse-resource.ts";
import { type Resource, resourceSet } from "../../api/resource.ts";
import { clusterEnvironment, hostEnvironment } from "../environment.ts";
import { maxServedDenialLength, maxServedExpressionLength, maxServedLimits } from "./limit-budget.ts";
import type { RefusedPolicies } from "../context.ts";
import { translate } from "../translate.ts";

const group = "gateway.networking.k8s.io";

function read(object: object): Resource {
  const parsed = parseResource(object);
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const times = <Value>(count: number, make: (at: number) => Value): readonly Value[] =>
  Array.from({ length: count }, (_, at) => make(at));

const gatewayClass = read({
  apiVersion: `${group}/v1`,
  kind: "GatewayClass",
  metadata: { name: "gateway-proxy" },
  spec: { controllerName: "gatewayproxy.dev/controller" },
});

function gateway(name: string): Resource {
  const listeners = [{ name: "http", port: 80, protocol: "HTTP", allowedRoutes: { namespaces: { from: "All" } } }];
  return read({
    apiVersion: `${group}/v1`,
    kind: "Gateway",
    metadata: { name, namespace: "owner" },
    spec: { gatewayClassName: "gateway-proxy", listeners },
  });
}

function route(namespace: string, name: string, gateways: readonly string[] = ["web"]): Resource {
  return read({
    apiVersion: `${group}/v1`,
    kind: "HTTPRoute",
    metadata: { name, namespace },
    spec: {
      parentRefs: gateways.map((each) => ({ name: each, namespace: "owner" })),
      hostnames: [`${name}.${namespace}.test`],
      rules: [{}],
    },
  });
}

/** Created on the day of the number at its end. */
function policy(namespace: string, name: string, targets: readonly string[], rateLimit: object): Resource {
  const day = new Date(Date.UTC(2026, 0, 1 + Number(/\d*$/.exec(name)?.[0] ?? 0))).toISOString();
  return read({
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: { name, namespace, creationTimestamp: day },
    spec: {
      targetRefs: targets.map((target) => ({ group, kind: "HTTPRoute", name: target })),
      traffic: { rateLimit },
    },
  });
}

const entries = (count: number, key?: (at: number) => string) => ({
  local: times(count, (at) => ({ requests: 1 + at, unit: "Hours", ...(key && { key: key(at) }) })),
});

/** Routes, and policies with 256 limits each, 64 limits at a route. */
function crowd(namespace: string, policies: number): readonly Resource[] {
  const routes = Math.ceil(policies / 4) * 16;
  return [
    ...times(routes, (at) => route(namespace, `r${at}`)),
    ...times(policies, (at) =>
      policy(
        namespace,
        `p${at}`,
        times(16, (index) => `r${Math.floor(at / 4) * 16 + index}`),
        entries(16),
      ),
    ),
  ];
}

function outcome(resources: readonly Resource[], isCluster = false, refusedPolicies: RefusedPolicies = "Closed") {
  const environment = isCluster ? clusterEnvironment() : hostEnvironment;
  const { binds, statuses } = translate(resourceSet([gatewayClass, ...resources]), { environment, refusedPolicies });
  const routes = binds.flatMap(({ listeners }) => listeners.flatMap((listener) => listener.routes));
  const limitsOf = (namespace: string) =>
    routes
      .filter((each) => each.namespace === namespace)
      .reduce((sum, { rules }) => sum + rules.reduce((total, { limits }) => total + limits.length, 0), 0);
  const attached = (namespace: string, name: string) =>
    statuses.proxyPolicies
      .filter((each) => each.namespace === namespace && each.name === name)
      .flatMap(({ ancestors }) => ancestors.flatMap(({ conditions }) => conditions))
      .filter(({ type }) => type === "Attached")
      .map(({ reason, message }) => `${reason}: ${message}`);
  const closed = routes.filter(({ rules }) => rules.some(({ refusedPolicies: closing }) => closing !== undefined));
  return { limitsOf, attached, closed: closed.map(({ key }) => key) };
}

test("a namespace alone has the whole, each limit counted once for each target, the oldest policies first", () => {
  const { limitsOf, attached, closed } = outcome([
    ...[gateway("web"), ...crowd("crowd", maxServedLimits / 256)],
    ...[route("crowd", "last"), policy("crowd", "p900", ["last"], entries(1))],
  ]);
  expect(limitsOf("crowd")).toBe(maxServedLimits);
  expect(attached("crowd", "p900")).toEqual([
    `TooManyLimits: with this policy namespace crowd has ${maxServedLimits + 1} limits at all targets, and its share of the ${maxServedLimits} that are enforced is ${maxServedLimits}, the oldest policies first; HTTPRoute/crowd/last responds with 503 (--refused-policies)`,
  ]);
  expect(closed).toEqual(["crowd/last"]);
});

test("two namespaces that want everything leave a third what it needs", () => {
  const { limitsOf, attached } = outcome(
    [
      ...[gateway("web"), ...crowd("crowd", 128), ...crowd("host", 128)],
      ...[route("other", "r"), policy("other", "p900", ["r"], entries(16))],
    ],
    false,
    "Open",
  );
  const share = (maxServedLimits - 16) / 2;
  expect(["crowd", "host", "other"].map(limitsOf)).toEqual([share - (share % 16), share - (share % 16), 16]);
  expect(attached("other", "p900")).toEqual(["Attached: all 16 local entries are enforced"]);
  expect(attached("crowd", "p127")[0]).toContain("HTTPRoute/crowd/r496 is served without this policy");
});

test("expressions are bounded by their length, a text that a namespace has twice counted once", () => {
  const long = (name: string) => `request.headers["${name.padEnd(980, "x")}"]`;
  const keys = Math.floor(maxServedExpressionLength / 1_000);
  const policies = times(Math.ceil(keys / 16), (at) =>
    policy(
      "crowd",
      `p${at}`,
      ["r"].map((name) => `${name}${at}`),
      entries(16, (index) => long(`${at}-${index}`)),
    ),
  );
  const { attached } = outcome([
    ...[gateway("web"), ...policies, ...policies.map((_, at) => route("crowd", `r${at}`))],
    ...[
      policy(
        "crowd",
        "p801",
        ["last"],
        entries(16, (index) => long(`0-${index}`)),
      ),
      route("crowd", "last"),
    ],
    ...[
      policy(
        "other",
        "p900",
        ["r"],
        entries(1, () => long("other")),
      ),
      route("other", "r"),
    ],
  ]);
  const length = long("").length;
  const others = Math.floor((maxServedExpressionLength - length) / length / 16);
  expect(attached("crowd", `p${others - 1}`)).toEqual(["Attached: all 16 local entries are enforced"]);
  expect(attached("crowd", `p${others}`)).toEqual([
    `TooManyLimits: with this policy namespace crowd has ${(others + 1) * 16 * length} characters of expressions, and its share of the ${maxServedExpressionLength} that are enforced is ${maxServedExpressionLength - length}, the oldest policies first; HTTPRoute/crowd/r${others} responds with 503 (--refused-policies)`,
  ]);
  expect(attached("crowd", "p801")).toEqual(["Attached: all 16 local entries are enforced"]);
  expect(attached("other", "p900")).toEqual(["Attached: its local entry is enforced"]);
});

test("responses to denials are bounded by their length, one that a namespace has twice counted once", () => {
  const length = 2_048 + 16 * (64 + 512);
  const denied = (text: string) => ({
    body: text.padEnd(2_048, "x"),
    headers: times(16, (at) => ({ name: `${text}-${at}-`.padEnd(64, "x"), value: "v".repeat(512) })),
  });
  const policyOf = (namespace: string, name: string, text: string) => [
    policy(namespace, name, [name], { ...entries(1), denied: denied(text) }),
    route(namespace, name),
  ];
  const fitting = Math.floor((maxServedDenialLength - length) / length);
  const { attached } = outcome([
    ...[gateway("web"), ...times(fitting + 2, (at) => policyOf("crowd", `p${at}`, `text${at}`)).flat()],
    ...[...policyOf("crowd", "p801", "text0"), ...policyOf("other", "p900", "text")],
  ]);
  const fits = ["Attached: its local entry is enforced"];
  expect(attached("crowd", `p${fitting - 1}`)).toEqual(fits);
  expect(attached("crowd", `p${fitting}`)).toEqual([
    `TooManyLimits: with this policy namespace crowd has ${(fitting + 1) * length} characters of responses to denials, and its share of the ${maxServedDenialLength} that are enforced is ${maxServedDenialLength - length}, the oldest policies first; HTTPRoute/crowd/p${fitting} responds with 503 (--refused-policies)`,
  ]);
  expect(attached("crowd", "p801")).toEqual(fits);
  expect(attached("other", "p900")).toEqual(fits);
});

test("expressions of descriptors and of a fallback count as well", () => {
  const cost = (at: number) => `size("${String(at).padEnd(990, "x")}")`;
  const rateLimit = (at: number) => ({
    global: {
      domain: "d",
      address: "192.0.2.1:80",
      failureMode: "Closed",
      descriptors: times(16, (index) => ({
        entries: [{ name: "a", expression: "request.path" }],
        cost: cost(at * 16 + index),
      })),
    },
  });
  const policies = times(Math.ceil(maxServedExpressionLength / 16_000) + 1, (at) =>
    policy("crowd", `p${at}`, [`r${at}`], rateLimit(at)),
  );
  const { attached } = outcome([gateway("web"), ...policies, ...policies.map((_, at) => route("crowd", `r${at}`))]);
  expect(attached("crowd", "p0")[0]).toContain("Attached: ");
  expect(attached("crowd", `p${policies.length - 1}`)[0]).toContain("characters of expressions");
});

test("policies take nothing from the proxies of another Gateway, nor at targets that no Gateway serves", () => {
  const nowhere = times(200, (at) =>
    policy(
      "crowd",
      `n${at}`,
      times(16, (index) => `none${index}`),
      entries(16),
    ),
  );
  const { attached } = outcome(
    [
      ...[gateway("web"), gateway("second"), ...nowhere, ...crowd("crowd", maxServedLimits / 256)],
      ...[route("crowd", "elsewhere", ["second"]), policy("crowd", "p800", ["elsewhere"], entries(16))],
      ...[route("crowd", "both", ["second", "web"]), policy("crowd", "p801", ["both"], entries(16))],
    ],
    true,
  );
  expect(attached("crowd", `p${maxServedLimits / 256 - 1}`)[0]).toBe("Attached: all 16 local entries are enforced");
  expect(attached("crowd", "p800")).toEqual(["Attached: all 16 local entries are enforced"]);
  expect(attached("crowd", "p801")[0]).toContain(`${maxServedLimits + 16} limits at all targets at Gateway owner/web`);
  expect(attached("crowd", "n0")[0]).toContain("TargetNotFound: HTTPRoute crowd/none0 does not exist");
});
