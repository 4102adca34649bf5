/**
 * A cluster that is restored from a backup, with lower versions, other objects and rights that were removed since. The
 * controller has the permissions of `deploy/rbac/controller.yaml`.
 */
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { ControlPlane } from "../rig/control-plane.ts";
import { type Cluster, describeCluster, eventually } from "./support/cluster.ts";
import type { ControllerProcess } from "./support/controller-process.ts";
import { startOwnController, startOwnPlane, system } from "./support/own-plane.ts";

describeCluster("after a restore of the cluster", () => {
  let plane: ControlPlane;
  let cluster: Cluster;

  beforeAll(async () => {
    ({ plane, cluster } = await startOwnPlane(setting));
  });

  afterAll(() => plane.stop());

  async function control(): Promise<ControllerProcess> {
    const controller = await startOwnController(plane);
    onTestFinished(() => controller.stop("SIGKILL"));
    return controller;
  }

  function mayRead(secret: string): Promise<boolean> {
    const account = "system:serviceaccount:attacker:web-gateway-proxy";
    return plane.kubectl(["auth", "can-i", "list", `secrets/${secret}`, "-n", "victim", "--as", account]).then(
      (response) => response.trim() === "yes",
      (error: unknown) => {
        // kubectl responds "no" with a failure.
        if (String(error).includes("no")) return false;
        throw error;
      },
    );
  }

  async function duringOutage(change: () => Promise<void>): Promise<void> {
    await plane.killApi();
    await change();
    await plane.startApi();
  }

  test("the controller removes rights that the backup has without a grant, and follows its objects", async () => {
    const [data, backup] = [join(plane.folder, "etcd"), join(plane.folder, "etcd-backup")];
    const first = await control();
    await cluster.apply(grant);
    await eventually(() => mayRead("old-key"), Boolean);
    await first.stop();
    // The backup has the right, and no grant for it.
    await plane.kubectl(["delete", "-n", "victim", "referencegrant/grant"]);
    await duringOutage(() => cp(data, backup, { recursive: true }));
    expect(await mayRead("old-key")).toBe(true);

    await control();
    await eventually(
      () => mayRead("old-key"),
      (may) => !may,
    );
    // Another object of the same name, and higher versions than those of the backup.
    await plane.kubectl(["delete", "-n", "victim", "backend/openai"]);
    await cluster.apply(backend("new-key"));
    await cluster.apply(grant);
    await eventually(() => mayRead("new-key"), Boolean);

    await duringOutage(async () => {
      await rm(data, { recursive: true });
      await cp(backup, data, { recursive: true });
    });
    await eventually(
      () => mayRead("old-key"),
      (may) => !may,
    );
    expect(await mayRead("new-key")).toBe(false);
    await cluster.apply(grant);
    await eventually(() => mayRead("old-key"), Boolean);
    await plane.kubectl(["delete", "-n", "victim", "referencegrant/grant"]);
    await eventually(
      () => mayRead("old-key"),
      (may) => !may,
      2_000,
    );
    expect(await mayRead("new-key")).toBe(false);
  }, 240_000);
});

const backend = (key: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: openai, namespace: victim}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: ${key}}}}}
`;

const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: grant, namespace: victim}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: attacker}]
  to: [{group: gatewayproxy.dev, kind: Backend}]
`;

const setting = `
apiVersion: v1
kind: Namespace
metadata: {name: ${system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: attacker}
---
apiVersion: v1
kind: Namespace
metadata: {name: victim}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: attacker}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: attacker}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{group: gatewayproxy.dev, kind: Backend, namespace: victim, name: openai}]}]
---${backend("old-key")}`;
