/**
 * A Kubernetes API server with a few objects, on a loopback port: lists, reads, error responses, and port-forwards over
 * WebSocket (subprotocol v4.channel.k8s.io) to real ports of this machine, with the framing of a kubelet: channel 0 has
 * data and channel 1 errors, and each begins with the port in two bytes.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";

/** A pod; ready by default. */
export interface ScriptedPod {
  readonly name: string;
  readonly namespace?: string;
  readonly gateway?: string;
  readonly phase?: string;
  readonly ready?: boolean;
  readonly waiting?: string;
  readonly isTerminating?: boolean;
  /** Ports of the pod, by their port on this machine; others are closed. */
  readonly ports?: Readonly<Record<number, number>>;
}

/** A Gateway; accepted and programmed by default. */
export interface ScriptedGateway {
  readonly name: string;
  readonly namespace?: string;
  readonly gatewayClass?: string;
  readonly notProgrammed?: string;
}

/** The objects and responses of the API server. */
export interface KubeScript {
  readonly pods?: readonly ScriptedPod[];
  readonly gateways?: readonly ScriptedGateway[];
  /** Paths that get a 403 response; matched anywhere in the path. */
  readonly forbidden?: readonly RegExp[];
  /** The required token; requests without it get a 401 response. */
  readonly token?: string;
  /** Serves HTTPS with this certificate; the kubeconfig trusts only the authority. All in PEM. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly authority: string };
  /** The namespace of the kubeconfig's context. */
  readonly namespace?: string;
}

/** A running API server. */
export interface KubeApi {
  /** The path of a kubeconfig whose context `test` leads here. */
  readonly kubeconfig: string;
  readonly url: string;
  /** The requests as `METHOD path`, in order. */
  readonly requests: readonly string[];
  /** Returns the number of open port-forwards. */
  readonly openForwards: () => number;
}

/** Serves the script until the test ends. */
export async function startKubeApi(script: KubeScript): Promise<KubeApi> {
  const requests: string[] = [];
  const open = new Set<WebSocket>();
  const handler = (request: IncomingMessage, response: ServerResponse): void => {
    requests.push(`${request.method ?? ""} ${request.url ?? ""}`);
    const { status, body } = reply(script, request);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const server = script.tls === undefined ? createServer(handler) : createTlsServer(script.tls, handler);
  forwardPorts(server, script, open, requests);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A TCP server that listens has such an address.
  const { port } = server.address() as AddressInfo;
  const url = `${script.tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
  const directory = await mkdtemp(join(tmpdir(), "proxyctl-kube-"));
  const kubeconfig = join(directory, "config");
  await writeFile(kubeconfig, JSON.stringify(kubeconfigOf(url, script)));
  onTestFinished(async () => {
    for (const socket of open) socket.terminate();
    server.closeAllConnections();
    server.close();
    await rm(directory, { recursive: true });
  });
  return { kubeconfig, url, requests, openForwards: () => open.size };
}

function kubeconfigOf(server: string, { token, tls, namespace }: KubeScript): object {
  const authority =
    tls === undefined ? {} : { "certificate-authority-data": Buffer.from(tls.authority).toString("base64") };
  return {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "local", cluster: { server, ...authority } }],
    users: [{ name: "tester", user: token === undefined ? {} : { token } }],
    contexts: [
      {
        name: "test",
        context: { cluster: "local", user: "tester", ...(namespace === undefined ? {} : { namespace }) },
      },
      { name: "broken", context: { cluster: "gone", user: "tester" } },
    ],
  };
}

interface Reply {
  readonly status: number;
  readonly body: object;
}

/** Returns the error response to a request without permission. */
function denial(script: KubeScript, request: IncomingMessage): Reply | undefined {
  const path = request.url ?? "";
  if (script.token !== undefined && request.headers.authorization !== `Bearer ${script.token}`) {
    return failure(401, "Unauthorized");
  }
  if (script.forbidden?.some((pattern) => pattern.test(path)) !== true) return undefined;
  return failure(403, `User "tester" cannot get ${path.split("?")[0] ?? ""}`);
}

function reply(script: KubeScript, request: IncomingMessage): Reply {
  const denied = denial(script, request);
  if (denied !== undefined) return denied;
  const url = new URL(request.url ?? "/", "http://api");
  if (url.pathname === "/version" || url.pathname === "/version/") {
    return {
      status: 200,
      body: {
        major: "1",
        minor: "34",
        gitVersion: "v1.34.0",
        gitCommit: "",
        gitTreeState: "",
        buildDate: "",
        goVersion: "",
        compiler: "",
        platform: "linux/amd64",
      },
    };
  }
  const [, namespace, kind, name] = /\/namespaces\/([^/]+)\/(pods|gateways)(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
  const scope = (each: { readonly namespace?: string }): boolean =>
    namespace === undefined || (each.namespace ?? "default") === namespace;
  if (kind === "gateways" || url.pathname.endsWith("/gateways")) {
    if (script.gateways === undefined) return failure(404, "the server could not find the requested resource");
    return {
      status: 200,
      body: {
        apiVersion: "gateway.networking.k8s.io/v1",
        kind: "GatewayList",
        metadata: {},
        items: script.gateways.filter(scope).map(gatewayObject),
      },
    };
  }
  if (kind !== "pods") return failure(404, "the server could not find the requested resource");
  const pods = (script.pods ?? []).filter(scope);
  if (name !== undefined) {
    const pod = pods.find((each) => each.name === name);
    return pod === undefined ? failure(404, `pods "${name}" not found`) : { status: 200, body: podObject(pod) };
  }
  const gateway = /gateway-name=(.+)$/.exec(url.searchParams.get("labelSelector") ?? "")?.[1];
  return {
    status: 200,
    body: {
      apiVersion: "v1",
      kind: "PodList",
      metadata: {},
      items: pods.filter((pod) => pod.gateway === gateway).map(podObject),
    },
  };
}

function failure(status: number, message: string): Reply {
  return { status, body: { apiVersion: "v1", kind: "Status", metadata: {}, status: "Failure", message, code: status } };
}

function podObject(pod: ScriptedPod): object {
  const isReady = pod.ready ?? (pod.phase ?? "Running") === "Running";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: pod.name,
      namespace: pod.namespace ?? "default",
      labels: pod.gateway === undefined ? {} : { "gateway.networking.k8s.io/gateway-name": pod.gateway },
      ...(pod.isTerminating === true ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {}),
    },
    spec: { containers: [] },
    status: {
      phase: pod.phase ?? "Running",
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
      containerStatuses:
        pod.waiting === undefined
          ? []
          : [
              {
                name: "proxy",
                image: "",
                imageID: "",
                ready: false,
                restartCount: 0,
                state: { waiting: { reason: pod.waiting } },
              },
            ],
    },
  };
}

function gatewayObject({
  name,
  namespace = "default",
  gatewayClass = "gateway-proxy",
  notProgrammed,
}: ScriptedGateway): object {
  const accepted = { type: "Accepted", status: "True", reason: "Accepted", message: "" };
  const programmed =
    notProgrammed === undefined
      ? { type: "Programmed", status: "True", reason: "Programmed", message: "" }
      : { type: "Programmed", status: "False", reason: "Pending", message: notProgrammed };
  return {
    metadata: { name, namespace },
    spec: { gatewayClassName: gatewayClass },
    status: { conditions: [accepted, programmed] },
  };
}

function forwardPorts(server: Server, script: KubeScript, open: Set<WebSocket>, requests: string[]): void {
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has("v4.channel.k8s.io") ? "v4.channel.k8s.io" : false),
  });
  server.on("upgrade", (request, socket, head) => {
    requests.push(`UPGRADE ${request.url ?? ""}`);
    const url = new URL(request.url ?? "/", "http://api");
    const denied = denial(script, request);
    const [, namespace, name] = /\/namespaces\/([^/]+)\/pods\/([^/]+)\/portforward$/.exec(url.pathname) ?? [];
    const pod = script.pods?.find((each) => each.name === name && (each.namespace ?? "default") === namespace);
    if (denied !== undefined || pod === undefined) {
      socket.end(`HTTP/1.1 ${denied?.status ?? 404} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      open.add(webSocket);
      webSocket.on("close", () => open.delete(webSocket));
      forward(webSocket, Number(url.searchParams.get("ports")), pod);
    });
  });
}

function forward(webSocket: WebSocket, port: number, pod: ScriptedPod): void {
  const send = (channel: number, bytes: Buffer): void => webSocket.send(Buffer.concat([Buffer.from([channel]), bytes]));
  const number = Buffer.alloc(2);
  number.writeUInt16LE(port);
  send(0, number);
  send(1, number);
  const target = pod.ports?.[port];
  if (target === undefined) {
    send(
      1,
      Buffer.from(`an error occurred forwarding ${port}: dial tcp4 127.0.0.1:${port}: connect: connection denied`),
    );
    webSocket.close();
    return;
  }
  const socket = connect(target, "127.0.0.1");
  socket.on("data", (chunk: Buffer) => send(0, chunk));
  socket.on("close", () => webSocket.close());
  socket.on("error", () => webSocket.close());
  // In the binary form of the protocol each message is one buffer.
  webSocket.on("message", (data: Buffer) => socket.write(data.subarray(1)));
  webSocket.on("close", () => socket.destroy());
}
