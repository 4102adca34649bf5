import { checkManifests } from "@gatewayproxy/proxy/check-manifests";
import { describe, expect, test } from "vitest";
import { proxyctl } from "../testing/run.ts";

/** Converts manifests from standard input. What is written must be accepted as it is. */
async function convert(input: string) {
  const run = await proxyctl(["convert", "-f", "-"], { input });
  const { problems } = checkManifests([{ path: "converted.yaml", text: run.stdout }], { references: false });
  expect(problems).toEqual([]);
  return run;
}

function ingress(annotations: string, hosts = ["shop.example.com"]): string {
  return `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: web
  annotations:${annotations
    .split("\n")
    .map((line) => `\n    nginx.ingress.kubernetes.io/${line}`)
    .join("")}
spec:
  rules: [${hosts.map((host) => `{ host: "${host}" }`).join(", ")}]
`;
}

function policy(
  rateLimit: string,
  targets = "targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]",
) {
  return `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: { name: chat }
spec:
  ${targets}
  rateLimit: ${rateLimit}
`;
}

/** The entries of the policies, one a line. */
function entriesOf(stdout: string): readonly string[] {
  const { problems } = checkManifests([{ path: "converted.yaml", text: stdout }], { references: false });
  expect(problems).toEqual([]);
  return stdout
    .split(/^ {8}- /m)
    .slice(1)
    .map((entry) => entry.split("\n---")[0]?.trim().replaceAll(/\n\s+/g, ", ") ?? "");
}

describe("an Ingress", () => {
  test("has a burst as nginx counts it, for each host, and connections as requests in progress", async () => {
    const annotations = 'limit-rps: "5"\nlimit-rpm: "300"\nlimit-burst-multiplier: "2"\nlimit-connections: "3"';
    const run = await convert(ingress(annotations, ["shop.example.com", "*.example.com", ""]));
    expect(run.exitCode).toBe(0);
    await expect(run.stdout).toMatchFileSnapshot("testdata/convert-ingress.yaml");
    await expect(run.stderr).toMatchFileSnapshot("testdata/convert-ingress.txt");
  });

  test.each([
    ["single addresses and whole bytes", "10.0.0.1,192.168.0.0/16,FD00::1", "", 0],
    ["a range of all addresses", "0.0.0.0/0", "", 0],
    ["a range that no condition can express", "10.0.0.0/12", "clients of 10.0.0.0/12 are limited", 0],
  ])("exempts %s", async (_, ranges, note, exitCode) => {
    const run = await convert(ingress(`limit-rps: "5"\nlimit-whitelist: "${ranges}"`));
    expect(run.exitCode).toBe(exitCode);
    expect(run.stderr).toContain(note);
    expect(run.stdout.match(/when: .*/)?.[0]).toMatchSnapshot();
  });

  test.each([
    ["the bandwidth", 'limit-rps: "5"\nlimit-rate: "100"', "limit-rate]: the bandwidth of a response is not limited"],
    [
      "an amount that is no number",
      'limit-rps: "5"\nlimit-rpm: "5r"',
      'limit-rpm]: found "5r", accepted is a whole number',
    ],
  ])("leaves out %s, and says so", async (_, annotations, note) => {
    const run = await convert(ingress(annotations));
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toContain(`left out: Ingress web/shop metadata.annotations[nginx.ingress.kubernetes.io/${note}`);
    expect(entriesOf(run.stdout)).toHaveLength(1);
  });

  test("without limits becomes nothing", async () => {
    const run = await proxyctl(["convert", "-f", "-"], { input: ingress('rewrite-target: "/"') });
    expect(run).toMatchObject({ exitCode: 0, stdout: "", stderr: "1 read, 0 ProxyPolicies written, 0 left out\n" });
  });
});

describe("a BackendTrafficPolicy", () => {
  const selected = (selector: string, limit = "{ requests: 10, unit: Minute }"): string =>
    policy(`{ local: { rules: [{ clientSelectors: [${selector}], limit: ${limit} }] } }`);

  test.each([
    ["every request", policy("{ local: { rules: [{ limit: { requests: 10, unit: Hour } }] } }")],
    ["each value of a header", selected("{ headers: [{ name: X-User, type: Distinct }] }")],
    ["a value of a header", selected('{ headers: [{ name: x-plan, value: a"b }] }')],
    ["another value of a header", selected("{ headers: [{ name: x-plan, value: gold, invert: true }] }")],
    ["a pattern of a header", selected("{ headers: [{ name: x-plan, type: RegularExpression, value: 'a|b' }] }")],
    ["two headers", selected("{ headers: [{ name: a, type: Distinct }, { name: b, type: Distinct }] }")],
    ["methods and a path", selected("{ methods: [{ value: GET }, { value: PUT }], path: { value: /v1 } }")],
    ["each address of a range", selected('{ sourceCIDR: { type: Distinct, value: "10.1.0.0/16" } }')],
    ["a month", selected("{ path: { value: /a, type: Exact } }", "{ requests: 1, unit: Month }")],
    ["a year", selected("{ path: { value: /a, invert: true } }", "{ requests: 1, unit: Year }")],
  ])("limits %s", async (_, input) => {
    const run = await convert(input);
    expect(run.exitCode).toBe(0);
    expect(entriesOf(run.stdout)).toMatchSnapshot();
  });

  test("counts tokens of responses, shares global limits by replicas, and has its own counters for each route", async () => {
    const tokens = (key: string): string =>
      `cost: { request: { from: Number, number: 0 }, response: { from: Metadata, metadata: { namespace: io.envoy.ai_gateway, key: ${key} } } }`;
    const rules = [
      `{ limit: { requests: 1000, unit: Hour }, ${tokens("llm_total_token")}, shared: true }`,
      `{ limit: { requests: 1000, unit: Day }, ${tokens("llm_input_token")}, shadowMode: true }`,
      "{ limit: { requests: 9, unit: Second }, cost: { request: { from: Number, number: 3 } } }",
    ];
    const gateway =
      "targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: a }, { group: gateway.networking.k8s.io, kind: HTTPRoute, name: b }]";
    const run = await convert(policy(`{ global: { rules: [${rules.join(", ")}] } }`, gateway));
    expect(run.exitCode).toBe(0);
    expect(entriesOf(run.stdout)).toMatchSnapshot();
    expect(run.stderr).toContain(
      "differs: BackendTrafficPolicy default/chat spec.rateLimit.global: each replica counts",
    );
  });

  test.each([
    ["a range that no condition can express", '{ sourceCIDR: { value: "10.0.0.0/9" } }', "clientSelectors"],
    ["a selector that is not known", "{ queryParams: [{ name: a }] }", ""],
  ])("leaves out a rule for %s, and no other", async (_, selector, field) => {
    const rules = `{ clientSelectors: [${selector}], limit: { requests: 1, unit: Hour } }, { limit: { requests: 2, unit: Hour } }`;
    const run = await convert(policy(`{ local: { rules: [${rules}] } }`));
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toContain(`left out: BackendTrafficPolicy default/chat spec.rateLimit.local.rules[0]`);
    expect(run.stderr).toContain(field);
    expect(entriesOf(run.stdout)).toMatchObject([expect.stringContaining("requests: 2")]);
  });

  test.each([
    ["a limit of 0", "{ limit: { requests: 0, unit: Hour } }", "a limit of 0 denies every request"],
    [
      "metadata of a filter that is not known",
      "{ limit: { requests: 1, unit: Hour }, cost: { request: { from: Number, number: 0 }, response: { from: Metadata, metadata: { namespace: a, key: b } } } }",
      "metadata a/b is no cost of a response here",
    ],
    [
      "metadata with the name of a member of every object",
      "{ limit: { requests: 1, unit: Hour }, cost: { request: { from: Number, number: 0 }, response: { from: Metadata, metadata: { namespace: a, key: constructor } } } }",
      "metadata a/constructor is no cost of a response here",
    ],
  ])("leaves out %s", async (_, rule, note) => {
    const run = await convert(policy(`{ global: { rules: [${rule}] } }`));
    expect(run).toMatchObject({ exitCode: 1, stdout: "" });
    expect(run.stderr).toContain(note);
  });

  test("with more rules and targets than a policy may have becomes several", async () => {
    const rules = Array.from({ length: 20 }, (_, at) => `{ limit: { requests: ${at + 1}, unit: Hour } }`).join(", ");
    const targets = Array.from(
      { length: 17 },
      (_, at) => `{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r${at} }`,
    );
    const run = await convert(policy(`{ global: { rules: [${rules}] } }`, `targetRefs: [${targets.join(", ")}]`));
    expect(run.stdout.match(/kind: ProxyPolicy/g)).toHaveLength(4);
    expect(run.stdout.match(/name: chat-limits(-\d)?$/gm)).toEqual([
      "name: chat-limits",
      "name: chat-limits-2",
      "name: chat-limits-3",
      "name: chat-limits-4",
    ]);
  });
});

describe("the input", () => {
  test("may be a list, with objects of other kinds", async () => {
    const items = [ingress('limit-rps: "5"'), "kind: Service\nmetadata: { name: a }"].map((item) =>
      item.trim().replaceAll("\n", "\n    "),
    );
    const run = await convert(`kind: List\nitems:\n  - ${items.join("\n  - ")}\n`);
    expect(run.stderr).toBe("1 read, 1 ProxyPolicy written, 0 left out\n");
  });

  test.each([
    ["has nothing to convert", "kind: Service", "it has no Ingress and no BackendTrafficPolicy"],
    ["is no YAML", "a: [", "convert standard input: "],
    [
      "has a malformed object",
      "kind: Ingress\nmetadata: { name: 5 }",
      "convert standard input: Ingress: metadata.name: ",
    ],
  ])("fails with a message if it %s", async (_, input, message) => {
    const run = await proxyctl(["convert", "-f", "-"], { input });
    expect(run.exitCode).toBe(2);
    expect(run.stdout).toBe("");
    expect(run.stderr).toContain(message);
  });
});
