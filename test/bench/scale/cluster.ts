/**
 * A cluster for the cases of `npm run bench:scale`: a real API server, with this controller and a proxy of one worker
 * as processes. Backends are in this process.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { Agent, request } from "undici";
import { gatewayApiCrds, requireRigProgram } from "../../rig/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../rig/control-plane.ts";
import { run } from "../../rig/daemon.ts";
import { applyDefinitions } from "../../rig/definitions.ts";
import { freePort } from "../../support/free-port.ts";
import { programFile } from "../../support/program-file.ts";
import { startOwnProgram } from "../own-program.ts";
import { type RunningProgram } from "../process.ts";

const gatewayApi = "/apis/gateway.networking.k8s.io/v1";
const repository = join(import.meta.dirname, "../../..");

/** The namespace of the Gateway. */
export const gatewayNamespace = "infra";

/** The API paths of the kinds that the cases create, in a namespace. */
export const paths = {
  listenerSets: (namespace: string) => `${gatewayApi}/namespaces/${namespace}/listenersets`,
  routes: (namespace: string) => `${gatewayApi}/namespaces/${namespace}/httproutes`,
  services: (namespace: string) => `/api/v1/namespaces/${namespace}/services`,
  endpointSlices: (namespace: string) => `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
  gateway: `${gatewayApi}/namespaces/${gatewayNamespace}/gateways/web`,
};

export type KubeObject = Readonly<Record<string, unknown>>;

/** Makes requests to the API server as an administrator. They reject for any status but 2xx. */
export class ApiClient {
  readonly #origin: string;
  readonly #agent: Agent;

  constructor({ apiPort, authority }: ControlPlane) {
    this.#origin = `https://127.0.0.1:${apiPort}`;
    this.#agent = new Agent({ connect: { ca: authority.authority.cert }, connections: 16 });
  }

  create(path: string, object: KubeObject): Promise<KubeObject> {
    return this.#send("POST", path, object, "application/json");
  }

  /** Sends a JSON merge patch. */
  patch(path: string, change: KubeObject): Promise<KubeObject> {
    return this.#send("PATCH", path, change, "application/merge-patch+json");
  }

  delete(path: string): Promise<KubeObject> {
    return this.#send("DELETE", path);
  }

  get(path: string): Promise<KubeObject> {
    return this.#send("GET", path);
  }

  async #send(method: "DELETE" | "GET" | "PATCH" | "POST", path: string, body?: KubeObject, type?: string) {
    const headers = { authorization: "Bearer admin", ...(type !== undefined && { "content-type": type }) };
    const sent = body === undefined ? null : JSON.stringify(body);
    const response = await request(`${this.#origin}${path}`, { method, headers, body: sent, dispatcher: this.#agent });
    const received = await response.body.text();
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${received}`);
    return JSON.parse(received) as KubeObject;
  }

  close(): Promise<void> {
    return this.#agent.close();
  }
}

/** The programs of a case, and the state of the cluster. `stop` ends all of it. */
export interface ScaleCluster {
  readonly api: ApiClient;
  /** The port of the listener of the Gateway `infra/web`, which takes routes and ListenerSets of all namespaces. */
  readonly port: number;
  readonly controller: RunningProgram;
  readonly proxy: RunningProgram;
  /** Whether both programs write CPU profiles. */
  readonly isProfiled: boolean;
  /** The number of writes of the controller to a kind, such as `gateways`, from the audit log of the API server. */
  writesTo(resource: string): number;
  /** Ends all programs, and removes the cluster. */
  stop(): Promise<void>;
}

/**
 * Starts the cluster with `namespaces` namespaces `n0`, `n1`, …, each with the Backend `echo`.
 *
 * @param profiles the folder for CPU profiles of the controller and the proxy; absent: none are written.
 */
export async function startCluster(namespaces: number, profiles?: string): Promise<ScaleCluster> {
  const plane = await startControlPlane({ audits: true });
  const kubectl = (args: readonly string[], input?: string) =>
    run(requireRigProgram("kubectl"), ["--kubeconfig", plane.kubeconfig, ...args], input);
  await applyDefinitions(kubectl, [gatewayApiCrds("standard"), join(repository, "deploy", "crds")]);
  const backend = createServer((incoming, response) => response.end(String(incoming.headers["x-version"])));
  await new Promise<void>((resolve) => backend.listen(0, "127.0.0.1", resolve));
  const address = backend.address();
  const backendPort = typeof address === "object" && address !== null ? address.port : 0;
  const port = await freePort();
  await kubectl(["create", "-f", "-"], manifests(namespaces, port, backendPort));
  const start = async (program: "controller" | "proxy", args: readonly string[]): Promise<RunningProgram> => {
    const [stats, readiness] = [await freePort(), await freePort()];
    const pages = ["--stats-address", `127.0.0.1:${stats}`, "--readiness-address", `127.0.0.1:${readiness}`];
    const profiling = profiles === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profiles];
    const command = [...profiling, programFile("proxy", program), ...pages, ...args];
    return startOwnProgram(program, command, { KUBECONFIG: plane.kubeconfig });
  };
  const controller = await start("controller", ["--proxy-image", "proxy:1", "--namespace", gatewayNamespace]);
  const proxy = await start("proxy", [
    ...["--kubernetes", "--gateway", `${gatewayNamespace}/web`, "--workers", "1", "--listen-address", "127.0.0.1"],
    ...["--admin-address", "off", "--access-log", "off", "--allow-backend-address", `127.0.0.1:${backendPort}`],
  ]);
  const api = new ApiClient(plane);
  return {
    api,
    port,
    controller,
    proxy,
    isProfiled: profiles !== undefined,
    writesTo: (resource) => countWrites(plane.auditLog, resource),
    async stop() {
      await Promise.all([controller.stop(), proxy.stop()]);
      await api.close();
      backend.closeAllConnections();
      backend.close();
      await plane.stop();
    },
  };
}

function manifests(namespaces: number, port: number, backendPort: number): string {
  const allowed = { namespaces: { from: "All" } };
  const listeners = [{ name: "http", port, protocol: "HTTP", allowedRoutes: allowed }];
  const names = Array.from({ length: namespaces }, (_, n) => `n${n}`);
  const objects = [
    ...[gatewayNamespace, ...names].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })),
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "GatewayClass",
      metadata: { name: "gateway-proxy" },
      spec: { controllerName: "gatewayproxy.dev/controller" },
    },
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "Gateway",
      metadata: { namespace: gatewayNamespace, name: "web" },
      spec: { gatewayClassName: "gateway-proxy", listeners, allowedListeners: allowed },
    },
    ...names.map((namespace) => ({
      apiVersion: "gatewayproxy.dev/v1alpha1",
      kind: "Backend",
      metadata: { namespace, name: "echo" },
      spec: { static: { host: "127.0.0.1", port: backendPort } },
    })),
  ];
  return objects.map((object) => JSON.stringify(object)).join("\n---\n");
}

/**
 * The lines of an audit log are events of `audit.k8s.io/v1`. The controller is the only client that writes a status.
 */
function countWrites(auditLog: string, resource: string): number {
  const lines = readFileSync(auditLog, "utf8").split("\n");
  return lines.filter((line) => {
    if (line === "") return false;
    const { verb, objectRef } = JSON.parse(line) as {
      readonly verb: string;
      readonly objectRef?: { readonly resource: string; readonly subresource?: string };
    };
    const isWrite = verb === "patch" || verb === "update";
    return isWrite && objectRef?.resource === resource && objectRef.subresource === "status";
  }).length;
}
