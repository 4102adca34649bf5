/** A proxy process in front of one backend, for faults. */
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { type ProxyProcess, startProxy } from "../../support/proxy-process.ts";

export interface World {
  readonly proxy: ProxyProcess;
  readonly port: number;
  /** A sample of /metrics, summed over its label sets that have all of `labels`. */
  readonly metric: (name: string, ...labels: readonly string[]) => Promise<number>;
}

export interface WorldOptions {
  readonly backend: number;
  /** Manifests of policies on the HTTPRoute `chat`. */
  readonly policies?: readonly string[];
  /** Flow YAML of further fields of the route's rule. */
  readonly rule?: string;
  readonly args?: readonly string[];
  /** The number of workers. Default 2. */
  readonly workers?: number;
  /** As for `spawnProxy`. */
  readonly cgroup?: string | undefined;
}

/** Manifests of a Gateway on `port` with one route `chat`. */
export function worldManifests(port: number, { backend, policies = [], rule = "" }: WorldOptions): string {
  return manifests(
    gatewayManifest(port),
    backendManifest("b", backend),
    routeManifest("chat", [`{ ${rule}${rule === "" ? "" : ", "}backendRefs: [${backendRef("b")}] }`]),
    ...policies,
  );
}

/** Starts the proxy. */
export async function startWorld(options: WorldOptions): Promise<World> {
  const port = await freePort();
  const args = ["--workers", String(options.workers ?? 2), "--access-log", "off", ...(options.args ?? [])];
  const proxy = await startProxy({ "all.yaml": worldManifests(port, options) }, args, {}, options.cgroup);
  return {
    proxy,
    port,
    metric: async (name, ...labels) => {
      const text = await (await fetch(`${proxy.stats}/metrics`)).text();
      const samples = text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
      const matching = samples.filter((line) => labels.every((label) => line.includes(label)));
      return matching.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    },
  };
}
