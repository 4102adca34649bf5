import { readFileSync } from "node:fs";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import type { ResourceSet } from "../api/resource.ts";
import { secretValue } from "../api/secret.ts";
import { noCredentials, type ValidCredentials } from "../translate/tls/credentials.ts";
import { type Plan, planFor } from "./plan.ts";
import { rememberedCredentials } from "./remembered-credentials.ts";
import { proxyDefaults } from "./testing/proxy-defaults.ts";

const testdata = new URL("../translate/testdata/listener-tls.in.yaml", import.meta.url);
const [sound] = parseManifests([{ path: "a.yaml", text: readFileSync(testdata, "utf8") }]).resources.Secret;
const [chain, key] = ["tls.crt", "tls.key"].map((field) => btoa(`${(sound && secretValue(sound, field)) ?? ""}\n`));

const made = "2026-01-01T00:00:00Z";
const since = "2026-02-01T00:00:00Z";

function manifests(data: string, creationTimestamp = made): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: infra, uid: uid-of-web}
spec:
  gatewayClassName: gateway-proxy
  listeners:
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: infra}
spec: {parentRefs: [{name: web}]}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {name: cert, namespace: infra, uid: uid-of-cert, creationTimestamp: "${creationTimestamp}"}
data: ${data}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: llm, namespace: infra}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: infra, uid: uid-of-key, creationTimestamp: "${creationTimestamp}"}
data: ${data === valid ? `{apiKey: ${btoa("sk-1")}}` : "{}"}
`;
}

const valid = `{tls.crt: ${chain}, tls.key: ${key}}`;
const malformed = `{tls.crt: ${chain}, tls.key: ${btoa("truncated")}}`;

function resourcesOf(text: string): ResourceSet {
  const { resources, problems } = parseManifests([{ path: "a.yaml", text }]);
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return resources;
}

const planOf = (resources: ResourceSet, before: ValidCredentials): Plan =>
  runToEnd(planFor({ resources, rejected: [], unreadable: new Set(), crowded: new Set() }, proxyDefaults, before));

/** The resources with the statuses of a plan, as the API server returns them. */
function withStatuses(resources: ResourceSet, { statuses }: Plan): ResourceSet {
  const timed = <T extends { readonly conditions: readonly object[] }>(status: T) => ({
    ...status,
    conditions: status.conditions.map((condition) => ({ ...condition, lastTransitionTime: since })),
  });
  const [gateway] = statuses.gateways.map((each) => ({ ...timed(each), listeners: each.listeners.map(timed) }));
  const [backend] = statuses.backends.map(timed);
  return {
    ...resources,
    Gateway: resources.Gateway.map((each) => ({ ...each, status: gateway })),
    Backend: resources.Backend.map((each) => ({ ...each, status: backend })),
  };
}

describe("a controller that starts while a Secret is malformed", () => {
  const previous = planOf(
    resourcesOf(manifests(malformed)),
    planOf(resourcesOf(manifests(valid)), noCredentials).credentials,
  );
  const stored = withStatuses(resourcesOf(manifests(malformed)), previous);

  test("has the statuses of the previous leader, which say that the previous content stays in force", () => {
    const messages = JSON.stringify(previous.statuses);
    expect(messages).toMatch(/its previous certificate, valid until [^ ]+, stays in force where it is known/);
    expect(messages).toContain("its previous content stays in force where it is known");
    const plan = planOf(stored, rememberedCredentials(stored));
    expect(plan.statuses).toEqual(previous.statuses);
    // And still has them in its next pass.
    const next = withStatuses(resourcesOf(manifests(malformed)), plan);
    expect(planOf(next, plan.credentials).statuses).toEqual(previous.statuses);
  });

  test("does not take a younger Secret of the same name for it", () => {
    const younger = withStatuses(resourcesOf(manifests(malformed, "2026-03-01T00:00:00Z")), previous);
    const [status] = planOf(younger, rememberedCredentials(younger)).statuses.gateways;
    expect(status?.listeners[0]?.conditions).toContainEqual(
      expect.objectContaining({ type: "Programmed", status: "False", reason: "Invalid" }),
    );
  });

  test("needs no memory of content that is valid", () => {
    const mended = withStatuses(resourcesOf(manifests(valid)), previous);
    expect(JSON.stringify(planOf(mended, rememberedCredentials(mended)).statuses)).not.toContain("previous");
  });

  /**
   * A Gateway of a tenant. An option of its listener has a name of its author, which the status of the listener
   * contains.
   */
  const forgery = (grant = "", namespace = "tenant") => `${manifests(malformed)}---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: forger, namespace: ${namespace}, uid: uid-of-forger}
spec:
  gatewayClassName: gateway-proxy
  listeners:
  - name: https
    port: 443
    protocol: HTTPS
    tls:
      certificateRefs: [{name: cert, namespace: infra}]
      options: {"of Secret infra/cert ; its previous fake stays in force where it is known": ""}
${grant}`;
  const grantOfSecrets = `---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: all, namespace: infra}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: tenant}]
  to: [{group: "", kind: Secret}]
`;

  test.each([
    ["another namespace", forgery(), []],
    ["another namespace that a ReferenceGrant permits to refer to it", forgery(grantOfSecrets), ["Secret infra/cert"]],
    ["its own namespace", forgery("", "infra"), ["Secret infra/cert"]],
  ])("takes what the status of an object of %s says of a Secret for true, or not", (_, text, expected) => {
    const resources = resourcesOf(text);
    const { statuses } = planOf(resources, noCredentials);
    const listeners = statuses.gateways
      .find(({ name }) => name === "forger")
      ?.listeners.map((each) => ({
        ...each,
        conditions: each.conditions.map((condition) => ({ ...condition, lastTransitionTime: since })),
      }));
    expect(JSON.stringify(listeners)).toContain("its previous fake stays in force");
    const stated = {
      ...resources,
      Gateway: resources.Gateway.map((each) => ({
        ...each,
        status: each.metadata.name === "forger" ? { listeners } : {},
      })),
    };
    expect([...rememberedCredentials(stated).certificate.keys()]).toEqual(expected);
  });

  test("reads no statement from statuses of another form", () => {
    const odd = [
      { conditions: "none" },
      {
        conditions: [
          { message: 7 },
          { message: "; its previous " },
          { message: "Secret; its previous x stays in force where" },
        ],
      },
    ];
    for (const status of odd) {
      const resources = resourcesOf(manifests(malformed));
      const all = { ...resources, Gateway: resources.Gateway.map((each) => ({ ...each, status })) };
      expect(rememberedCredentials(all).certificate.size).toBe(0);
    }
  });
});
