/**
 * Every status of a policy or a route, on a real API server, and that a limit that is reported as enforced is enforced.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { type Cluster, describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";
import { type GatewayProcess, getStatus, startGatewayProcess } from "./support/gateway-process.ts";
import { type Outcome, type PolicyOutcome, scenarios, stage, tokensPerResponse } from "./support/status-scenarios.ts";

const namespace = "status-matrix";
const controllerName = "gatewayproxy.dev/controller";

describeCluster("statuses", (cluster) => {
  let controller: ControllerProcess | undefined;
  let proxy: GatewayProcess | undefined;
  let backend: Server;
  let port: number;

  beforeAll(async () => {
    const usage = { total_tokens: tokensPerResponse };
    backend = createServer((_, response) => {
      response.setHeader("content-type", "application/json").end(JSON.stringify({ usage }));
    });
    await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
    // A listening TCP server has such an address.
    const { port: backendPort } = backend.address() as AddressInfo;
    port = await freePort();
    await cluster.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: ${namespace}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: matrix}
spec: {controllerName: ${controllerName}}
`);
    const all = [stage("matrix", port, backendPort), ...scenarios.map(({ manifests }) => manifests)].join("\n");
    await cluster.apply(all.replaceAll("NS", namespace));
    controller = await startController({
      kubeconfig: cluster.kubeconfig,
      namespace,
      args: ["--proxy-service-type", "ClusterIP", "--proxy-allow-backend-address", `127.0.0.1:${backendPort}`],
    });
    proxy = await startGatewayProcess(cluster.kubeconfig, `${namespace}/web`, [
      "--allow-backend-address",
      `127.0.0.1:${backendPort}`,
    ]);
    await eventually(
      () => getStatus(port, "plain.open.test"),
      (status) => status === 200,
    );
  });

  afterAll(async () => {
    await controller?.stop();
    await proxy?.stop();
    backend.close();
    await cluster.kubectl(["delete", "namespace", namespace, `${namespace}-other`, "--wait=false"]);
    await cluster.deleteClass("matrix");
  });

  test("there are 40 policies, and a request proves each attached one", () => {
    expect(scenarios).toHaveLength(40);
    expect(new Set(scenarios.map(({ name }) => name)).size).toBe(40);
    const unproven = scenarios.flatMap(({ name, expected }) =>
      expected.kind === "policy" && expected.attached.includes("True Attached") && expected.limited?.length === 0
        ? [name]
        : [],
    );
    // It counts and denies nothing.
    expect(unproven).toEqual(["shadow"]);
  });

  describe("a policy", () => {
    const policies = scenarios.flatMap(({ name, expected }) =>
      expected.kind === "policy" ? [{ name, expected }] : [],
    );

    test.each(policies)("$name", async ({ name, expected }) => {
      const entries = await eventually(
        () => entriesOf(cluster, `proxypolicy/${name}`, namespace, "ancestors"),
        (found) => found.length > 0,
      );
      expect(entries.map((entry) => outcomeOf(entry, "Attached"))).toEqual(expected.attached);
      expect(new Set(entries.map((entry) => outcomeOf(entry, "Accepted")))).toEqual(new Set([expected.accepted]));
      expect(entries.flatMap(({ conditions }) => conditions.map((each) => each.observedGeneration))).not.toContain(
        undefined,
      );
      await expectTraffic(port, expected);
    });
  });

  describe("a route", () => {
    const routes = scenarios.flatMap(({ name, manifests, expected }) =>
      expected.kind === "route"
        ? [{ name, expected, home: manifests.includes("namespace: NS-other}\n") ? `${namespace}-other` : namespace }]
        : [],
    );

    test.each(routes)("$name", async ({ name, expected, home }) => {
      const [entry] = await eventually(
        () => entriesOf(cluster, `httproute/${name}`, home, "parents"),
        (found) => found.length > 0,
      );
      const found = (entry?.conditions ?? []).map(({ type }) => [
        type,
        entry === undefined ? "" : outcomeOf(entry, type),
      ]);
      expect(Object.fromEntries(found)).toEqual(expected.conditions);
    });
  });

  test("entries of other controllers stay unchanged beside ours", async () => {
    const theirs = {
      parentRef: { group: "gateway.networking.k8s.io", kind: "Gateway", name: "foreign" },
      controllerName: "example.test/other",
      conditions: [
        {
          type: "Accepted",
          status: "True",
          reason: "Accepted",
          message: "theirs",
          observedGeneration: 1,
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    };
    const ours = await entriesOf(cluster, "httproute/of-both", namespace, "parents");
    const patch = JSON.stringify({ status: { parents: [theirs, ...ours] } });
    await cluster.kubectl([
      "patch",
      "httproute/of-both",
      "-n",
      namespace,
      "--subresource=status",
      "--type=merge",
      "-p",
      patch,
    ]);
    const spec = JSON.stringify({ spec: { hostnames: ["of-both.open.test", "also.open.test"] } });
    await cluster.kubectl(["patch", "httproute/of-both", "-n", namespace, "--type=merge", "-p", spec]);
    const { status } = await eventually(
      () => cluster.get("httproute/of-both", namespace),
      (object) => JSON.stringify(object["status"]).includes('"observedGeneration":2'),
    );
    const { parents } = status as { parents: readonly Entry[] };
    expect(parents).toContainEqual(theirs);
    const own = parents.filter((entry) => entry.controllerName === controllerName);
    expect(own).toHaveLength(1);
    // The status of the condition did not change, and so its time did not.
    expect(own[0]?.conditions.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual(
      ours[0]?.conditions.map(({ lastTransitionTime }) => lastTransitionTime),
    );
  });

  test("a route that conflicts with an equal one reports it, wholly or in part, and so does a policy on it", async () => {
    const route = (name: string, ...paths: readonly string[]): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  parentRefs: [{name: web, sectionName: open}]
  hostnames: [conflict.open.test]
  rules:
${paths.map((path) => `    - {matches: [{path: {value: ${path}}}], backendRefs: [{group: gatewayproxy.dev, kind: Backend, name: echo}]}`).join("\n")}
---`;
    await cluster.apply(`${route("conflict-a", "/one")}
${route("conflict-b", "/one")}
${route("conflict-c", "/one", "/two")}
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: on-conflict, namespace: ${namespace}}
spec:
  targetRefs:
    - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: conflict-b}
    - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: conflict-c}
  traffic: {rateLimit: {local: [{requests: 1, unit: Minutes}]}}
`);
    // The API server writes times in whole seconds, so that routes of one command may be equally old.
    const conditionOf = async (name: string, type: string): Promise<Condition | undefined> => {
      const [entry] = await entriesOf(cluster, `httproute/${name}`, namespace, "parents");
      return entry?.conditions.find((each) => each.type === type);
    };
    const wholly = await eventually(
      () => conditionOf("conflict-b", "Shadowed"),
      (found) => found !== undefined,
    );
    const partly = await eventually(
      () => conditionOf("conflict-c", "PartiallyShadowed"),
      (found) => found !== undefined,
    );
    for (const condition of [wholly, partly]) {
      expect(condition?.status).toBe("True");
      expect(["OlderRoute", "NameOrder"]).toContain(condition?.reason);
      expect(condition?.message).toContain(`HTTPRoute ${namespace}/conflict-a`);
    }
    for (const name of ["conflict-a", "conflict-b", "conflict-c"]) {
      expect(await conditionOf(name, "Accepted")).toMatchObject({ status: "True", reason: "Accepted" });
    }
    expect(await conditionOf("conflict-a", "Shadowed")).toBeUndefined();
    const attached = await eventually(
      () => entriesOf(cluster, "proxypolicy/on-conflict", namespace, "ancestors"),
      (found) => found.length === 2,
    );
    expect(attached.map((entry) => outcomeOf(entry, "Attached"))).toEqual(["False Shadowed", "True Attached"]);
    await expectTraffic(port, {
      ...{ kind: "policy", accepted: "True Valid", attached: [] },
      limited: [{ host: "conflict.open.test", path: "/two" }],
      free: [{ host: "conflict.open.test", path: "/one" }],
    });
  });

  test("a policy that only the parser rejects is reported as rejected, with the reason", async () => {
    await cluster.apply(`
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: rejected, namespace: ${namespace}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: plain}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Minutes, key: "request.nothing("}]}}
`);
    const [entry] = await eventually(
      () => entriesOf(cluster, "proxypolicy/rejected", namespace, "ancestors"),
      (found) => found.length > 0,
    );
    expect(entry?.conditions).toMatchObject([
      { type: "Accepted", status: "False", reason: "Invalid", message: expect.stringContaining("key") as unknown },
      { type: "Attached", status: "False", reason: "Pending", observedGeneration: 1 },
    ]);
  });

  test("a route that only the parser rejects is not accepted, or served without the rejected rule", async () => {
    const lookahead = 'matches: [{path: {type: RegularExpression, value: "/(?=x)"}}]';
    const route = (name: string, rules: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  parentRefs: [{name: web}]
  rules: [${rules}]
---`;
    await cluster.apply(`${route("no-rule", `{${lookahead}}`)}${route("one-rule", `{${lookahead}}, {}`)}
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: on-rejected-route, namespace: ${namespace}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: no-rule}]
  traffic: {rateLimit: {local: [{requests: 1, unit: Minutes}]}}
`);
    const conditionsOf = async (name: string) => {
      const entries = () => entriesOf(cluster, `httproute/${name}`, namespace, "parents");
      const [entry] = await eventually(entries, (found) => found.length > 0);
      return entry?.conditions;
    };
    const message = expect.stringContaining("RE2") as unknown;
    expect(await conditionsOf("no-rule")).toMatchObject([
      { type: "Accepted", status: "False", reason: "UnsupportedValue", message, observedGeneration: 1 },
    ]);
    expect(await conditionsOf("one-rule")).toMatchObject([
      { type: "Accepted", status: "True" },
      { type: "ResolvedRefs" },
      { type: "PartiallyInvalid", status: "True", reason: "UnsupportedValue", message },
    ]);
    const isPending = (entries: readonly Entry[]) =>
      entries.some((entry) => outcomeOf(entry, "Attached") === "False Pending");
    await eventually(() => entriesOf(cluster, "proxypolicy/on-rejected-route", namespace, "ancestors"), isPending);
  });

  test("a Gateway that only the parser rejects is not accepted, with the reason", async () => {
    const address = "{type: example.test/name, value: same}";
    await cluster.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: rejected, namespace: ${namespace}}
spec:
  gatewayClassName: matrix
  addresses: [${address}, ${address}]
  listeners: [{name: http, port: 80, protocol: HTTP}]
`);
    const { status } = await eventually(
      () => cluster.get("gateway/rejected", namespace),
      (gateway) => JSON.stringify(gateway["status"] ?? "").includes("named twice"),
    );
    expect(status).toMatchObject({
      conditions: [
        { type: "Accepted", status: "False", reason: "Invalid", observedGeneration: 1 },
        { type: "Programmed", status: "False", reason: "Invalid", observedGeneration: 1 },
      ],
    });
  });

  test.each([
    ["on-route", "HTTPRoute/on-route", "1 request/Minute", "True", "True"],
    ["tokens", "HTTPRoute/tokens", "10 tokens/Minute", "True", "True"],
    ["shadow", "HTTPRoute/shadow", "1 request/Minute (shadow)", "True", "True"],
    ["missing-route", "HTTPRoute/nowhere", "1 request/Minute", "True", "False"],
    ["one-of-two-targets", "HTTPRoute/one-of-two, HTTPRoute/nowhere", "1 request/Minute", "True", "1/2"],
    // Only its targets can be read.
    ["rejected", "HTTPRoute/plain", "", "False", "False"],
  ])("kubectl shows the targets, the limits and the conditions of %s", async (name, ...expected) => {
    const table = await eventually(
      () => cluster.kubectl(["get", "ppol", name, "-n", namespace]),
      (text) => text.includes(expected[0]),
    );
    const [head = "", row = ""] = table.split("\n");
    // kubectl aligns values with their headings; some values have spaces, and some are empty.
    const columns = ["NAME", "TARGET", "LIMITS", "ACCEPTED", "ATTACHED", "AGE"];
    expect(head.split(/ +/)).toEqual(columns);
    const starts = columns.map((column) => head.indexOf(column));
    const values = starts.map((start, index) => row.slice(start, starts[index + 1]).trimEnd());
    expect(values.slice(0, -1)).toEqual([name, ...expected]);
    expect(values.at(-1)).toMatch(/^\d+[smh]/);
  });

  test("a Backend is accepted once its Secret exists", async () => {
    await cluster.apply(`
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: llm, namespace: ${namespace}}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: llm-key}}}}
`);
    const accepted = (status: string) =>
      eventually(
        () => cluster.get("backend/llm", namespace),
        (object) => JSON.stringify(object["status"] ?? "").includes(`"status":"${status}"`),
      );
    expect(JSON.stringify((await accepted("False"))["status"])).toContain("does not exist");
    await cluster.kubectl(["create", "secret", "generic", "llm-key", "-n", namespace, "--from-literal=apiKey=k"]);
    await accepted("True");
  });

  test("no status is written without a change", async () => {
    const writes = async () => {
      const text = await (await fetch(controller?.metrics ?? "")).text();
      return Number(/status_writes_total\{outcome="written"\} (\d+)/.exec(text)?.[1]);
    };
    const before = await writes();
    // A change without effect on a status makes the controller plan everything again.
    await cluster.kubectl(["label", "namespace", namespace, "touched=yes", "--overwrite"]);
    await cluster.kubectl(["annotate", "gateway/web", "-n", namespace, "touched=yes", "--overwrite"]);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(before).toBeGreaterThan(40);
    expect(await writes()).toBe(before);
  });
});

interface Entry {
  readonly controllerName: string;
  readonly conditions: readonly Condition[];
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message?: string;
  readonly observedGeneration?: number;
  readonly lastTransitionTime: string;
}

/** The entries of this controller in a status. */
async function entriesOf(
  cluster: Cluster,
  resource: string,
  home: string,
  list: "ancestors" | "parents",
): Promise<readonly Entry[]> {
  const { status } = await cluster.get(resource, home);
  const entries = (status as { readonly [name: string]: readonly Entry[] } | undefined)?.[list] ?? [];
  return entries.filter((entry) => entry.controllerName === controllerName);
}

function outcomeOf({ conditions }: Entry, type: string): Outcome | undefined {
  const condition = conditions.find((each) => each.type === type);
  if (condition === undefined) return undefined;
  return `${condition.status === "True" ? "True" : "False"} ${condition.reason}`;
}

/** Under a limit that is reported as attached, the second request is denied; without one, none is. */
async function expectTraffic(port: number, { limited = [], free = [] }: PolicyOutcome): Promise<void> {
  for (const { host, path } of limited) {
    const statuses = [await getStatus(port, host, path), await getStatus(port, host, path)];
    expect([host, ...statuses]).toEqual([host, 200, 429]);
  }
  for (const { host, path } of free) {
    const statuses = [await getStatus(port, host, path), await getStatus(port, host, path)];
    expect([host, ...statuses]).toEqual([host, 200, 200]);
  }
}
