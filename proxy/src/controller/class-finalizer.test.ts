import type { Logger } from "@gatewayproxy/runtime/log";
import { describe, expect, test, vi } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import type { KubeObject } from "../kube/object.ts";
import { ClassFinalizer, type ClassFinalizerOptions } from "./class-finalizer.ts";

const finalizer = "gateway-exists-finalizer.gateway.networking.k8s.io";

const gatewayClass = (more = "") => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ours, ${more}}
spec: {controllerName: gatewayproxy.dev/controller}
---`;
const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;

/** A class in the API server, and a finalizer writer over it. */
function given(metadata: KubeObject | undefined, isLeader = true) {
  const get = vi.fn<ClassFinalizerOptions["api"]["get"]>(() => Promise.resolve(metadata && { metadata }));
  const merge = vi.fn<ClassFinalizerOptions["api"]["merge"]>(() => Promise.resolve({}));
  const warn = vi.fn();
  const note = vi.fn();
  const log: Logger = { error: note, warn, info: note, debug: note, trace: note, isLevelEnabled: () => true };
  const held = new ClassFinalizer({ api: { get, merge }, log, isLeader: () => isLeader });
  const reconcile = (...manifests: readonly string[]) =>
    held.reconcile(parseManifests([{ path: "a.yaml", text: manifests.join("") }]).resources);
  return { get, merge, warn, reconcile };
}

describe("the finalizer of a class", () => {
  test("is written for the version that was read, and keeps the finalizers of others", async () => {
    const { merge, reconcile } = given({ resourceVersion: "7", finalizers: ["theirs"] });
    expect(await reconcile(gatewayClass(), gateway)).toBe(true);
    expect(merge.mock.calls).toEqual([
      [
        "/apis/gateway.networking.k8s.io/v1/gatewayclasses/ours",
        { metadata: { resourceVersion: "7", finalizers: ["theirs", finalizer] } },
      ],
    ]);
  });

  test.each([
    ["is there and used", gatewayClass(`finalizers: [${finalizer}]`) + gateway],
    ["is not there and not used", gatewayClass()],
    ["cannot be added any more", gatewayClass("deletionTimestamp: 2026-01-01T00:00:00Z") + gateway],
  ])("is not requested where it %s", async (_, manifests) => {
    const { get, reconcile } = given({ resourceVersion: "7" });
    expect(await reconcile(manifests)).toBe(true);
    expect(get).not.toHaveBeenCalled();
  });

  test.each([
    ["is there by now", { resourceVersion: "7", finalizers: [finalizer] }],
    ["belongs to a class that is being deleted by now", { resourceVersion: "7", deletionTimestamp: "2026-01-01" }],
    ["belongs to a class that is gone", undefined],
  ])("is not written where it %s", async (_, current) => {
    const { merge, reconcile } = given(current);
    expect(await reconcile(gatewayClass(), gateway)).toBe(true);
    expect(merge).not.toHaveBeenCalled();
  });

  test("is written by the leader only", async () => {
    const { get, reconcile } = given({ resourceVersion: "7" }, false);
    expect(await reconcile(gatewayClass(), gateway)).toBe(false);
    expect(get).not.toHaveBeenCalled();
  });

  test("is tried again after a failure, which is logged once, and after a conflict, which is not logged", async () => {
    const { merge, warn, reconcile } = given({ resourceVersion: "7" });
    for (const status of [403, 403, 409, 404]) {
      merge.mockRejectedValueOnce(new ApiFailure(status, "failed"));
      expect(await reconcile(gatewayClass(), gateway)).toBe(false);
    }
    expect(warn).toHaveBeenCalledTimes(1);
    expect(await reconcile(gatewayClass(), gateway)).toBe(true);
  });
});
