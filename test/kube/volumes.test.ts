/**
 * Proxies with volumes, on a real API server with its controllers. There is no node: pods serve when the test sets
 * their status.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeCluster, eventually, type KubeObject } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";

describeCluster("volumes of proxies", (cluster) => {
  let controller: ControllerProcess;

  beforeAll(async () => {
    await cluster.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: volumes-system}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: durable}
spec: {controllerName: gatewayproxy.dev/controller}
`);
    controller = await startController({
      kubeconfig: cluster.kubeconfig,
      namespace: "volumes-system",
      args: ["--proxy-service-type", "ClusterIP"],
    });
  });

  afterAll(async () => {
    await controller.stop();
    await cluster.deleteClass("durable");
    await cluster.kubectl(["delete", "namespace/volumes-system", "--wait=false"]);
  });

  /** Creates a Gateway in a namespace that accepts only restricted pods. */
  async function gatewayWith(parameters: string): Promise<string> {
    const namespace = await cluster.namespace();
    await cluster.kubectl(["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    await shape(namespace, parameters);
    await cluster.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec:
  gatewayClassName: durable
  listeners: [{name: http, protocol: HTTP, port: 80}]
  infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: shape}}
`);
    return namespace;
  }

  const shape = (namespace: string, parameters: string) =>
    cluster.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: shape, namespace: ${namespace}}
data: {${parameters}}
`);

  const claimOf = (storage: string) => `persistentVolumeClaim: "spec: {resources: {requests: {storage: ${storage}}}}"`;

  const names = async (kind: string, namespace: string) =>
    (await cluster.kubectl(["get", kind, "-n", namespace, "-o", "name"])).trim().split("\n").sort();

  async function podsOf(owner: "ReplicaSet" | "StatefulSet", namespace: string) {
    const { items } = JSON.parse(await cluster.kubectl(["get", "pods", "-n", namespace, "-o", "json"])) as {
      items: readonly (KubeObject & { readonly metadata: { readonly ownerReferences: readonly { kind: string }[] } })[];
    };
    return items.filter(({ metadata }) => metadata.ownerReferences.some(({ kind }) => kind === owner));
  }

  /** Makes a number of pods of a workload serve. */
  async function serve(owner: "ReplicaSet" | "StatefulSet", namespace: string, count: number): Promise<void> {
    const pods = await eventually(
      () => podsOf(owner, namespace),
      ({ length }) => length >= count,
    );
    const lastTransitionTime = new Date().toISOString();
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime }];
    for (const { metadata } of pods.slice(0, count)) {
      await cluster.kubectl([
        ...["patch", "pod", metadata.name, "-n", namespace, "--subresource=status", "--type=merge", "-p"],
        JSON.stringify({ status: { phase: "Running", conditions } }),
      ]);
    }
  }

  const isGone = (resource: string, namespace: string) =>
    eventually(
      () =>
        cluster.get(resource, namespace).then(
          () => false,
          (error: unknown) => String(error).includes("NotFound"),
        ),
      Boolean,
      30_000,
    );

  const condition = (fields: object) => ({
    status: {
      conditions: expect.arrayContaining([
        expect.objectContaining({ type: "PersistentCounters", ...fields }),
      ]) as unknown,
    },
  });

  const claims = ["persistentvolumeclaim/state-web-durable-0", "persistentvolumeclaim/state-web-durable-1"];

  test("replace proxies without volumes when all serve, and are replaced by them in the same way", async () => {
    const namespace = await gatewayWith("");
    await serve("ReplicaSet", namespace, 2);
    const deployment = await cluster.becomes("deployment/web-durable", namespace, { status: { availableReplicas: 2 } });
    await shape(namespace, claimOf("1Gi"));
    await serve("StatefulSet", namespace, 1);
    await cluster.becomes("gateway/web", namespace, condition({ status: "False", reason: "Pending" }));
    await cluster.becomes("statefulset/web-durable", namespace, { status: { availableReplicas: 1 } });
    expect(await cluster.get("deployment/web-durable", namespace)).toMatchObject({
      metadata: { uid: deployment.metadata.uid },
    });
    await serve("StatefulSet", namespace, 2);
    await isGone("deployment/web-durable", namespace);
    await cluster.becomes("gateway/web", namespace, condition({ status: "True", reason: "Persistent" }));
    expect(await names("persistentvolumeclaims", namespace)).toEqual(claims);
    const labels = "gateway.networking.k8s.io/gateway-name=web";
    expect(
      (await cluster.kubectl(["get", "pvc", "-n", namespace, "-l", labels, "-o", "name"])).trim().split("\n"),
    ).toHaveLength(2);

    await shape(namespace, "");
    await cluster.becomes("deployment/web-durable", namespace, { spec: { replicas: 2 } });
    await cluster.becomes("statefulset/web-durable", namespace, { status: { availableReplicas: 2 } });
    await serve("ReplicaSet", namespace, 2);
    await isGone("statefulset/web-durable", namespace);
    await Promise.all(claims.map((claim) => isGone(claim, namespace)));
  }, 120_000);

  test("keep their size, with a condition, until the StatefulSet is created again, and everything else is applied", async () => {
    const namespace = await gatewayWith(claimOf("1Gi"));
    await serve("StatefulSet", namespace, 2);
    await cluster.becomes("gateway/web", namespace, condition({ reason: "Persistent" }));
    await shape(namespace, `${claimOf("2Gi")}, deployment: "spec: {replicas: 3}"`);
    await cluster.becomes(
      "gateway/web",
      namespace,
      condition({
        status: "True",
        reason: "VolumesUnchanged",
        message: expect.stringContaining('stays "1Gi" and not "2Gi"') as string,
      }),
    );
    await cluster.becomes("statefulset/web-durable", namespace, { spec: { replicas: 3 } });
    const pods = await podsOf("StatefulSet", namespace);
    await cluster.kubectl(["delete", "statefulset/web-durable", "-n", namespace, "--cascade=orphan"]);
    await cluster.becomes("statefulset/web-durable", namespace, {
      spec: { volumeClaimTemplates: [{ spec: { resources: { requests: { storage: "2Gi" } } } }] },
    });
    await cluster.becomes("gateway/web", namespace, condition({ status: "True", reason: "Persistent" }));
    const uids = (await podsOf("StatefulSet", namespace)).map(({ metadata }) => metadata.uid);
    expect(uids).toEqual(expect.arrayContaining(pods.map(({ metadata }) => metadata.uid)));
    expect(await cluster.get(String(claims[0]), namespace)).toMatchObject({
      spec: { resources: { requests: { storage: "1Gi" } } },
    });
  }, 120_000);

  test("have the number of proxies of the autoscaler, which scales the StatefulSet", async () => {
    const scaled = `horizontalPodAutoscaler: "spec: {minReplicas: 1, maxReplicas: 9}"`;
    const namespace = await gatewayWith(scaled);
    await cluster.becomes("deployment/web-durable", namespace, {});
    await cluster.kubectl(["scale", "-n", namespace, "deployment/web-durable", "--replicas=4"]);
    await cluster.becomes("deployment/web-durable", namespace, { spec: { replicas: 4 } });
    await shape(namespace, `${scaled}, ${claimOf("1Gi")}`);
    await cluster.becomes("statefulset/web-durable", namespace, { spec: { replicas: 4 } });
    await cluster.becomes("horizontalpodautoscaler/web-durable", namespace, {
      spec: { scaleTargetRef: { kind: "StatefulSet", name: "web-durable" } },
    });
    await cluster.kubectl(["scale", "-n", namespace, "statefulset/web-durable", "--replicas=5"]);
    await shape(namespace, `${scaled}, ${claimOf("1Gi")}, deployment: "spec: {minReadySeconds: 2}"`);
    await cluster.becomes("statefulset/web-durable", namespace, { spec: { replicas: 5, minReadySeconds: 2 } });
  }, 120_000);

  test.each([
    ["are deleted with their Gateway", "", []],
    [
      "stay when their Gateway is deleted, if the parameters request it",
      `, statefulSet: "spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain}}"`,
      claims,
    ],
  ])(
    "%s",
    async (_, parameters, expected) => {
      const namespace = await gatewayWith(`${claimOf("1Gi")}${parameters}`);
      await serve("StatefulSet", namespace, 2);
      await eventually(
        () => names("persistentvolumeclaims", namespace),
        ({ length }) => length === 2,
      );
      await cluster.kubectl(["delete", "-n", namespace, "gateway/web"]);
      await isGone("statefulset/web-durable", namespace);
      await eventually(
        () => podsOf("StatefulSet", namespace),
        ({ length }) => length === 0,
      );
      const wanted = expected.length === 0 ? [""] : expected;
      await eventually(
        () => names("persistentvolumeclaims", namespace),
        (found) => JSON.stringify(found) === JSON.stringify(wanted),
      );
    },
    120_000,
  );
});
