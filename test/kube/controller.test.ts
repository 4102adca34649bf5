/** Controller processes: replicas, an API server that becomes unavailable, many routes. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { startControlPlane } from "../rig/control-plane.ts";
import { type Cluster, clusterOf, describeCluster, eventually } from "./support/cluster.ts";
import { type ControllerProcess, startController } from "./support/controller-process.ts";
import { defineKinds } from "./support/global-setup.ts";

const running: ControllerProcess[] = [];

async function start(...args: Parameters<typeof startController>): Promise<ControllerProcess> {
  const started = await startController(...args);
  running.push(started);
  return started;
}

afterEach(async () => {
  for (const controller of running.splice(0)) await controller.stop("SIGKILL");
});

const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: processes}
spec: {controllerName: gatewayproxy.dev/controller}
`;

/** The cluster may be a user's own. */
const removeClass = (cluster: Cluster): Promise<void> => cluster.deleteClass("processes");

const gateway = (namespace: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: ${namespace}}
spec: {gatewayClassName: processes, listeners: [{name: http, port: 80, protocol: HTTP}]}
`;

const route = (namespace: string, name: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: ${namespace}}
spec: {parentRefs: [{name: web}], hostnames: [${name}.test]}
`;

const isAccepted = async (cluster: Cluster, namespace: string, name: string, timeoutMs?: number) =>
  await eventually(
    () => cluster.get(`httproute/${name}`, namespace),
    ({ status }) => JSON.stringify(status ?? "").includes('"reason":"Accepted"'),
    timeoutMs,
  );

/** The value of a series, by its name and labels as the text has them. */
async function metric(controller: ControllerProcess, series: string): Promise<number> {
  const lines = (await (await fetch(controller.metrics)).text()).split("\n");
  // Help texts have the name too, after a #.
  return Number(lines.find((line) => line.startsWith(`${series} `))?.slice(series.length));
}

const leads = async (controller: ControllerProcess) =>
  (await metric(controller, "gateway_proxy_controller_leader")) === 1;

const leader = (controllers: readonly ControllerProcess[], timeoutMs?: number) =>
  eventually(
    async () => {
      const all = await Promise.all(controllers.map(async (each) => ((await leads(each)) ? [each] : [])));
      return all.flat();
    },
    (leading) => leading.length === 1,
    timeoutMs,
  );

describeCluster("replicas of the controller", (cluster) => {
  beforeAll(() => cluster.apply(gatewayClass));
  afterAll(() => removeClass(cluster));

  test("lead one at a time, and hand over at once at SIGTERM", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    const setup = { kubeconfig: cluster.kubeconfig, namespace };
    const replicas = [await start({ ...setup, identity: "one" }), await start({ ...setup, identity: "two" })];
    const [first] = await leader(replicas);
    await cluster.apply(route(namespace, "before"));
    await isAccepted(cluster, namespace, "before");
    expect((await leader(replicas))[0]).toBe(first);

    await first?.stop("SIGTERM");
    const [second] = await leader(
      replicas.filter((each) => each !== first),
      5_000,
    );
    expect(second).not.toBe(first);
    await cluster.apply(route(namespace, "after"));
    await isAccepted(cluster, namespace, "after");
  });

  test("replace one that dies, once its lease has expired", async () => {
    const namespace = await cluster.namespace();
    await cluster.apply(gateway(namespace));
    const setup = { kubeconfig: cluster.kubeconfig, namespace };
    const replicas = [await start({ ...setup, identity: "one" }), await start({ ...setup, identity: "two" })];
    const [first] = await leader(replicas);
    await first?.stop("SIGKILL");
    await leader(
      replicas.filter((each) => each !== first),
      25_000,
    );
  });
});

describeCluster("the log of the controller", (cluster) => {
  beforeAll(() => cluster.apply(gatewayClass));
  afterAll(() => removeClass(cluster));

  test("has the decisions of each module at debug, and the comparisons and watch events at trace", async () => {
    const namespace = await cluster.namespace();
    const { log } = await start({ kubeconfig: cluster.kubeconfig, namespace, args: ["--log-level", "trace"] });
    await cluster.apply(gateway(namespace));
    await cluster.apply(route(namespace, "logged"));
    await isAccepted(cluster, namespace, "logged");
    const expectLogged = (module: string, level: string, msg: string, fields: object = {}) =>
      expect
        .poll(() => log, { timeout: 15_000 })
        .toContainEqual(expect.objectContaining({ module, level, msg, ...fields }));
    const resource = `HTTPRoute ${namespace}/logged`;
    await expectLogged("controller::lifecycle", "debug", "servers opened");
    await expectLogged("controller::leader", "debug", "creating the lease");
    await expectLogged("controller::leader", "debug", "lease renewed");
    await expectLogged("controller::source", "debug", "listed");
    await expectLogged("controller::source", "trace", "watch event", { object: `${namespace}/logged` });
    await expectLogged("controller::config", "debug", "configuration received");
    await expectLogged("controller::reconcile", "debug", "pass ended", { isWritten: true });
    await expectLogged("controller::provision", "debug", "provisioned");
    await expectLogged("controller::status", "debug", "status written", { resource });
    await expectLogged("controller::status", "trace", "status compared");
  });
});

describeCluster("an API server that becomes unavailable", () => {
  test("is retried with a backoff, and no change of that time is missed", async () => {
    const plane = await startControlPlane();
    try {
      const cluster = clusterOf(plane.kubeconfig);
      await defineKinds(plane.kubeconfig);
      await cluster.kubectl(["create", "namespace", "tenant"]);
      await cluster.apply(`${gatewayClass}---${gateway("tenant")}---${route("tenant", "before")}`);
      const controller = await start({ kubeconfig: plane.kubeconfig, namespace: "tenant" });
      await isAccepted(cluster, "tenant", "before");

      await plane.killApi();
      const before = controller.log.length;
      await new Promise((resolve) => setTimeout(resolve, 5_000));
      await plane.startApi();
      await cluster.apply(route("tenant", "after"));
      await isAccepted(cluster, "tenant", "after", 60_000);
      // One line for each of the kinds and each lost renewal, and no busy loop.
      expect(controller.log.length - before).toBeLessThan(80);
    } finally {
      for (const controller of running.splice(0)) await controller.stop("SIGKILL");
      await plane.stop();
    }
  }, 150_000);
});

describeCluster("a cluster without the CRDs", () => {
  test("gets them later, and its Gateways are then reconciled", async () => {
    const plane = await startControlPlane();
    try {
      const cluster = clusterOf(plane.kubeconfig);
      const controller = await start({ kubeconfig: plane.kubeconfig, namespace: "default" });
      const message = "the API server does not know the kind Gateway";
      await eventually(
        () => Promise.resolve(JSON.stringify(controller.log)),
        (log) => log.includes(message),
      );
      await defineKinds(plane.kubeconfig);
      await cluster.apply(`${gatewayClass}---${gateway("default")}---${route("default", "late")}`);
      await isAccepted(cluster, "default", "late", 60_000);
    } finally {
      for (const controller of running.splice(0)) await controller.stop("SIGKILL");
      await plane.stop();
    }
  }, 120_000);
});

describeCluster("a thousand routes", (cluster) => {
  afterAll(() => removeClass(cluster));

  test("all get their status, and a change of one writes one status", async () => {
    const namespace = await cluster.namespace();
    const names = Array.from({ length: 1_000 }, (_, index) => `route-${index}`);
    await cluster.apply([gatewayClass, gateway(namespace), ...names.map((name) => route(namespace, name))].join("---"));
    const controller = await start({ kubeconfig: cluster.kubeconfig, namespace });
    const accepted =
      'jsonpath={range .items[*]}{.status.parents[0].conditions[?(@.type=="Accepted")].status}{"\\n"}{end}';
    await eventually(
      () => cluster.kubectl(["get", "httproutes", "-n", namespace, "-o", accepted]),
      (statuses) => statuses.split("\n").filter((status) => status === "True").length === 1_000,
      60_000,
    );
    const writes = () => metric(controller, 'gateway_proxy_controller_status_writes_total{outcome="written"}');
    // The listener's count of routes is written after the last of them.
    await eventually(
      () => cluster.get("gateway/web", namespace),
      ({ status }) => JSON.stringify(status).includes('"attachedRoutes":1000'),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const before = await writes();
    const change = '{"spec":{"hostnames":["changed.test"]}}';
    await cluster.kubectl(["patch", "httproute/route-7", "-n", namespace, "--type=merge", "-p", change]);
    await eventually(
      () => cluster.get("httproute/route-7", namespace),
      ({ status }) => JSON.stringify(status).includes('"observedGeneration":2'),
    );
    expect((await writes()) - before).toBe(1);
  }, 180_000);
});
