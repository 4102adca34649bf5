/**
 * The controller and a proxy as processes, on an API server without validation: whatever the objects, neither ends,
 * both stay ready and apply changes, no event loop is blocked for 100 ms, and at most 64 MiB stay in use.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { type Kind, kinds } from "../../../proxy/src/api/resource.ts";
import { fieldsOf, isObject } from "../../../proxy/src/kube/object.ts";
import { collectionPaths, namespacedPath } from "../../../proxy/src/source/kubernetes/watched-kinds.ts";
import { respondWith, startBackend } from "../../support/backend.ts";
import { startObjectApiServer } from "../../support/object-api-server.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { fuzz } from "../support/fuzz.ts";
import { type Manifest, manifest, parameters, watched } from "../support/manifest-values.ts";
import { perTest } from "../support/per-test.ts";
import { startWatched, type WatchedProcess } from "../support/watched-process.ts";
import { gatewayApi } from "../../support/api-versions.ts";

const maxGrowthBytes = 64 * 1024 * 1024;
const maxHeldMs = 100;
/** A single slow run may have other causes. */
const confirmations = 3;

function object(apiVersion: string, kind: string, name: string, spec: Manifest): Manifest {
  const namespace = kind === "GatewayClass" ? {} : { namespace: "default" };
  return { apiVersion, kind, metadata: { name, ...namespace }, spec };
}

/** A Gateway that accepts the routes of all namespaces, with a backend. */
function baseObjects(port: number, backend: number): readonly Manifest[] {
  const controller = { controllerName: "gatewayproxy.dev/controller" };
  const listener = { name: "http", protocol: "HTTP", port, allowedRoutes: { namespaces: { from: "All" } } };
  const all = { namespaces: { from: "All" } };
  return [
    object(gatewayApi, "GatewayClass", watched, controller),
    object(gatewayApi, "GatewayClass", "gateway-proxy", controller),
    object(gatewayApi, "Gateway", watched, {
      gatewayClassName: watched,
      listeners: [listener],
      allowedListeners: all,
      infrastructure: { parametersRef: { group: "", kind: "ConfigMap", name: "a" } },
    }),
    object("gatewayproxy.dev/v1alpha1", "Backend", watched, { static: { host: "127.0.0.1", port: backend } }),
  ];
}

/** A route whose filter shows which case is in effect. */
function markerRoute(mark: string): Manifest {
  return object(gatewayApi, "HTTPRoute", "marker", {
    parentRefs: [{ name: watched }],
    hostnames: ["marker.example"],
    rules: [
      {
        backendRefs: [{ group: "gatewayproxy.dev", kind: "Backend", name: watched }],
        filters: [
          { type: "ResponseHeaderModifier", responseHeaderModifier: { set: [{ name: "x-case", value: mark }] } },
        ],
      },
    ],
  });
}

/** The collection of an object in the API server, by its kind. */
function collectionOf({ kind }: Manifest): string | undefined {
  if (typeof kind !== "string" || !Object.hasOwn(kinds, kind)) return undefined;
  // The table was just read with this key.
  const known = kind as Kind;
  if (known !== "Secret" && known !== "ConfigMap") return collectionPaths(known)[0];
  return namespacedPath(known, "default").replace("/namespaces/default", "");
}

const clusterKinds = ["GatewayClass", "Namespace"];

/** With metadata as an API server stores it, which is always valid. */
function asStored(made: Manifest): Manifest {
  const { name, namespace, labels } = fieldsOf(made["metadata"]);
  const inNamespace = clusterKinds.some((kind) => kind === made["kind"])
    ? {}
    : { namespace: namespace === "other" ? "other" : "default" };
  const validName = typeof name === "string" && /^[a-z-]{1,20}$/.test(name) && name !== watched ? name : "odd";
  const texts = Object.entries(isObject(labels) ? labels : {}).filter(([, value]) => typeof value === "string");
  return { ...made, metadata: { name: validName, ...inNamespace, labels: Object.fromEntries(texts) as Manifest } };
}

const ownGateway = { group: "gateway.networking.k8s.io", kind: "Gateway", name: watched };

/** Fields that attach an object of a kind to the Gateway that the proxy serves. */
const attachments: Readonly<Record<string, Manifest>> = {
  Gateway: { gatewayClassName: watched },
  HTTPRoute: { parentRefs: [{ ...ownGateway, namespace: "default" }] },
  ListenerSet: { parentRef: { ...ownGateway, namespace: "default" } },
  ProxyPolicy: { targetRefs: [ownGateway] },
};

function attached(made: Manifest): Manifest {
  const { kind, spec } = made;
  const attachment = typeof kind === "string" ? attachments[kind] : undefined;
  // A spec that is no object stays invalid.
  return attachment === undefined || !isObject(spec)
    ? made
    : { ...made, spec: { ...(spec as Manifest), ...attachment } };
}

interface World {
  readonly processes: Readonly<Record<string, WatchedProcess>>;
  readonly put: (objects: readonly Manifest[]) => void;
  /** Removes them again, and restores the previous objects. */
  readonly restore: (objects: readonly Manifest[]) => void;
  /** Resolves when both processes have applied the current objects. */
  readonly settled: () => Promise<void>;
  readonly heapsBefore: Readonly<Record<string, number>>;
}

const world = perTest(async (): Promise<World> => {
  const api = await startObjectApiServer();
  const backend = await startBackend(respondWith(200, "ok"));
  const [port, adminPort] = [await freePort(), await freePort()];
  const put = (objects: readonly Manifest[]): void => {
    for (const each of objects) {
      const collection = collectionOf(each);
      if (collection !== undefined) api.put(collection, each);
    }
  };
  const base = baseObjects(port, backend.port);
  const keyOf = (each: Manifest): string => JSON.stringify([each["kind"], fieldsOf(each["metadata"])["name"]]);
  const baseByKey = new Map(base.map((each) => [keyOf(each), each]));
  const restore = (objects: readonly Manifest[]): void => {
    for (const each of objects) {
      const collection = collectionOf(each);
      const before = baseByKey.get(keyOf(each));
      if (before !== undefined) put([before]);
      else if (collection !== undefined) api.remove(collection, each);
    }
  };
  const routes = collectionPaths("HTTPRoute")[0];
  let marks = 0;
  put([...base, markerRoute("case-0")]);

  const env = { KUBECONFIG: api.kubeconfig, UV_THREADPOOL_SIZE: "1" };
  const [proxy, controller] = await Promise.all([
    startWatched({
      main: programFile("proxy", "proxy"),
      args: [
        ...["--kubernetes", "--gateway", `default/${watched}`, "--workers", "1", "--access-log", "off"],
        ...["--listen-address", "127.0.0.1", "--admin-address", `127.0.0.1:${adminPort}`],
        ...["--allow-backend-address", `127.0.0.1:${backend.port}`],
      ],
      env,
      threads: 2,
    }),
    startWatched({
      main: programFile("proxy", "controller"),
      args: ["--proxy-image", "test/proxy:1", "--namespace", "default", "--identity", "one"],
      env,
      threads: 1,
    }),
  ]);
  const processes = { proxy, controller };

  /** The configuration that the proxy serves. */
  const served = async (): Promise<string> =>
    fetch(`http://127.0.0.1:${adminPort}/config_dump`).then(
      (response) => response.text(),
      () => "",
    );
  const isReported = (): boolean => {
    const route = api.get(routes, "default", "marker");
    const { generation } = fieldsOf(route?.["metadata"]);
    return JSON.stringify(route?.["status"] ?? "").includes(`"observedGeneration":${String(generation)}`);
  };
  const settled = async (): Promise<void> => {
    const mark = `case-${++marks}-`;
    put([markerRoute(mark)]);
    const isAlive = (): boolean => Object.values(processes).every((each) => !each.hasEnded());
    await expect
      .poll(async () => !isAlive() || (isReported() && (await served()).includes(mark)), {
        timeout: 30_000,
        interval: 20,
      })
      .toBe(true);
  };
  // Compiles the code first.
  for (let times = 0; times < 5; times++) await settled();
  const heapsBefore: Record<string, number> = {};
  for (const [name, each] of Object.entries(processes)) {
    heapsBefore[name] = await each.heapBytes();
    // A start takes long, which shows that the watch works.
    expect(await each.longestHeldMs()).toBeGreaterThan(0);
  }
  return { processes, put, restore, settled, heapsBefore };
});

/** Adds the objects and removes them; resolves with the longest time that an event loop was blocked. */
async function longestHeld(objects: readonly Manifest[]): Promise<Readonly<Record<string, number>>> {
  const { processes, put, restore, settled, heapsBefore } = await world();
  put(objects);
  await settled();
  for (const [name, each] of Object.entries(processes)) {
    expect(each.hasEnded(), `${name} has ended:\n${each.output()}`).toBe(false);
    const { status } = await fetch(`${each.readiness}/healthz/ready`);
    expect(status, `readiness of ${name}`).toBe(200);
    const grown = (await each.heapBytes()) - (heapsBefore[name] ?? 0);
    expect(grown, `growth of ${name}`).toBeLessThan(maxGrowthBytes);
  }
  restore(objects);
  await settled();
  const held: Record<string, number> = {};
  for (const [name, each] of Object.entries(processes)) held[name] = await each.longestHeldMs();
  return held;
}

fuzz("cluster-processes", {
  prepare: world,
  arbitrary: fc.array(
    fc.record({
      object: fc.oneof({ weight: 9, arbitrary: manifest }, { weight: 1, arbitrary: parameters("a") }),
      isAttached: fc.boolean(),
    }),
    { minLength: 1, maxLength: 8 },
  ),
  async check(made) {
    const objects = made.map(({ object, isAttached }) => asStored(isAttached ? attached(object) : object));
    let held = await longestHeld(objects);
    const isLong = (): boolean => Object.values(held).some((ms) => ms >= maxHeldMs);
    for (let again = 1; again < confirmations && isLong(); again++) held = await longestHeld(objects);
    expect(Object.entries(held).filter(([, ms]) => ms >= maxHeldMs)).toEqual([]);
  },
  quickRuns: 5,
});
