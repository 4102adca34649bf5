import { expect, test } from "vitest";
import { gatewayGroup, proxyGroup } from "../../api/names.ts";
import { parseResource } from "../../api/parse-resource.ts";
import { resourceSet } from "../../api/resource.ts";
import { statusLines } from "../../status/conditions.ts";
import { translate } from "../translate.ts";

function resource(apiVersion: string, kind: string, name: string, spec: object) {
  const parsed = parseResource({ apiVersion, kind, metadata: { name }, spec });
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

const backendTls = { caRef: { name: "ca" } };

/** Each refers to a Secret or a ConfigMap that does not exist. */
const resources = resourceSet([
  resource(`${gatewayGroup}/v1`, "GatewayClass", "gateway-proxy", { controllerName: "gatewayproxy.dev/controller" }),
  resource(`${gatewayGroup}/v1`, "Gateway", "web", {
    gatewayClassName: "gateway-proxy",
    listeners: [{ name: "https", port: 443, protocol: "HTTPS", tls: { certificateRefs: [{ name: "cert" }] } }],
  }),
  resource(`${gatewayGroup}/v1`, "HTTPRoute", "chat", {
    parentRefs: [{ name: "web" }],
    rules: [{ backendRefs: [{ name: "b", port: 80 }] }],
  }),
  resource("v1", "Service", "b", { ports: [{ port: 80 }] }),
  resource(`${gatewayGroup}/v1`, "BackendTLSPolicy", "tls", {
    targetRefs: [{ group: "", kind: "Service", name: "b" }],
    validation: { hostname: "b.test", caCertificateRefs: [{ group: "", kind: "ConfigMap", name: "authorities" }] },
  }),
  resource(`${proxyGroup}/v1alpha1`, "Backend", "llm", {
    ai: { provider: { openai: {} }, auth: { secretRef: { name: "key" } } },
  }),
  resource(`${proxyGroup}/v1alpha1`, "Backend", "static", { static: { host: "a.test", port: 443, tls: backendTls } }),
]);

const named = ["Secret default/cert", "ConfigMap default/authorities", "Secret default/key", "Secret default/ca"];

function messagesAbout(object: string, unreadable: readonly string[]): readonly string[] {
  const { statuses } = translate(resources, { unreadable: new Set(unreadable) });
  const messages = [...statusLines(statuses)].map(({ message }) => message);
  return messages.filter((message) => message.includes(object));
}

test.each(named)("%s is said not to exist only where it may be read", (object) => {
  expect(messagesAbout(object, [])).toEqual([expect.stringContaining("does not exist")]);
  const [forbidden, ...others] = messagesAbout(object, [object]);
  expect(others).toEqual([]);
  expect(forbidden).toContain("must not be read: the verbs list and watch are not permitted");
  expect(forbidden).not.toContain("does not exist");
});

test("a Backend is accepted where it names no Secret, or one that is there", () => {
  const secret = parseResource({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "key" } },
    stringData: { apiKey: "k" },
  });
  if (secret.kind !== "resource") return expect.unreachable();
  const all = { ...resources, Secret: resourceSet([secret.resource]).Secret };
  const accepted = translate(all).statuses.backends.map(({ name, conditions }) => [name, conditions[0]?.status]);
  expect(accepted).toEqual([
    ["llm", "True"],
    ["static", "False"],
  ]);
});
