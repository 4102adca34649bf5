/**
 * Simulates a cloud's load balancer for Services without addresses, as on the fake node: a Service of type LoadBalancer
 * gets the addresses of its ready pods. One that requests an address (`spec.loadBalancerIP`) gets it if it is one of
 * the pool's, else none; no traffic is forwarded from there to the pods.
 */
import { readFileSync } from "node:fs";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { Logs } from "@gatewayproxy/runtime/log";
import { KubeApi, resourcePath } from "../../proxy/src/kube/api.ts";
import { ClusterConnection } from "../../proxy/src/kube/connection.ts";
import { isObject, type KubeObject } from "../../proxy/src/kube/object.ts";
import { watchObjects } from "../../proxy/src/kube/watch.ts";
import { coalesce } from "../../proxy/src/source/coalesce.ts";
import type { ControlPlane } from "./control-plane.ts";

const services = { apiVersion: "v1", plural: "services" };
const slices = { apiVersion: "discovery.k8s.io/v1", plural: "endpointslices" };

/** Serves until it is closed. */
export function startLoadBalancer(plane: ControlPlane, pool: readonly string[]): { close(): Promise<void> } {
  const ca = readFileSync(plane.authority.authority.certFile);
  const connection = new ClusterConnection({
    server: new URL(`https://127.0.0.1:${plane.apiPort}`),
    credentials: () => Promise.resolve({ ca, headers: { authorization: "Bearer admin" } }),
  });
  const api = new KubeApi(connection);
  const logs = new Logs({
    filter: { level: "warn", modules: new Map() },
    clock: systemClock,
    destination: { write: (line) => process.stderr.write(line) },
  });
  const log = logs.logger("load-balancer");

  const watch = (path: string) =>
    watchObjects<KubeObject>({
      ...{ connection, clock: systemClock, random: Math.random, log },
      paths: [path],
      read: (object) => object,
      onChange: () => changes.trigger(),
    });
  const balance = async (): Promise<void> => {
    for (const [key, service] of watched.services.objects) {
      const addresses = addressesFor(service, key, [...watched.slices.objects.values()], pool);
      if (addresses === undefined || addresses.join() === ingressOf(service).join()) continue;
      const [namespace = "", name = ""] = key.split("/");
      const status = { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } };
      await api.merge(`${resourcePath(services, namespace, name)}/status`, { status }).catch((error: unknown) => {
        log.warn({ service: key, err: error }, "cannot give an address");
      });
    }
  };
  const onFailure = (error: unknown) => log.error({ err: error }, "cannot balance");
  const changes = coalesce({ clock: systemClock, quietMs: 20, maxMs: 100, action: balance, onFailure });
  const watched = { services: watch(resourcePath(services)), slices: watch(resourcePath(slices)) };
  return {
    async close() {
      watched.services.close();
      watched.slices.close();
      await changes.close();
      connection.close();
    },
  };
}

/** Undefined for a Service that requests no load balancer. */
function addressesFor(
  { spec }: KubeObject,
  key: string,
  all: readonly KubeObject[],
  pool: readonly string[],
): readonly string[] | undefined {
  if (!isObject(spec) || spec["type"] !== "LoadBalancer") return undefined;
  const { loadBalancerIP: requested } = spec;
  if (typeof requested === "string" && requested !== "") return pool.includes(requested) ? [requested] : [];
  const ready = all.filter((slice) => serviceOf(slice) === key).flatMap(readyAddresses);
  return [...new Set(ready)].sort();
}

/** `namespace/name` of the Service of a slice. */
function serviceOf({ metadata }: KubeObject): string {
  const { namespace, labels } = isObject(metadata) ? metadata : {};
  const name = isObject(labels) ? labels["kubernetes.io/service-name"] : undefined;
  return `${String(namespace)}/${String(name)}`;
}

function readyAddresses({ endpoints }: KubeObject): readonly string[] {
  return objectsOf(endpoints).flatMap(({ addresses, conditions }) => {
    const isReady = isObject(conditions) && conditions["ready"] === true;
    return isReady && Array.isArray(addresses) ? addresses.filter((each) => typeof each === "string") : [];
  });
}

function ingressOf({ status }: KubeObject): readonly string[] {
  const balancer = isObject(status) ? status["loadBalancer"] : undefined;
  return objectsOf(isObject(balancer) ? balancer["ingress"] : undefined).map(({ ip }) => String(ip));
}

function objectsOf(value: unknown): readonly KubeObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
