/** LLM providers that behave as a test says, request by request, and a gateway with a list of them. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { startBackend, type TestBackend } from "./backend.ts";
import { freePort } from "./free-port.ts";
import {
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "./gateway.ts";

/** One response of a provider, or the lack of one. */
export type Behavior = (request: ReceivedRequest, response: ServerResponse) => void;

/** A request that a provider has received. */
export interface ReceivedRequest {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  readonly socket: IncomingMessage["socket"];
}

/** A provider of the list. */
export interface Provider {
  readonly name: string;
  /** Default 0. */
  readonly priority?: number;
  /** Default 1. */
  readonly weight?: number;
  /** Its behavior with each request; the last entry is repeated. `away` listens nowhere. */
  readonly script: readonly Behavior[] | "away";
  /** Further fields of `spec.ai`, as flow YAML. Default: the provider `openaiCompatible`. */
  readonly ai?: string;
  /** Whether the gateway has no key for it. Default false. */
  readonly isPassthrough?: boolean;
}

export interface RunningProvider {
  readonly received: readonly ReceivedRequest[];
  /** Replaces what it does with further requests. */
  behave(...script: readonly Behavior[]): void;
}

/** The tokens of a response of `ok`, `stream` and `cutAfterEvent`. */
export const usage = { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 };

const choice = (content: string) => [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
const delta = (content: string) => [{ index: 0, delta: { role: "assistant", content }, finish_reason: null }];
const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
const chunk = { id: "1", object: "chat.completion.chunk", created: 1, model: "m" };

/** A whole response whose text is `content`. */
export function ok(content: string, headers: Readonly<Record<string, string>> = {}, reported = usage): Behavior {
  const body = {
    id: "1",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: choice(content),
    usage: reported,
  };
  return (_request, response) => {
    response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
}

/** A stream whose text is `content`. */
export function stream(content: string, headers: Readonly<Record<string, string>> = {}, reported = usage): Behavior {
  return (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream", ...headers });
    response.write(event({ ...chunk, choices: delta(content) }));
    response.end(`${event({ ...chunk, choices: [], usage: reported })}data: [DONE]\n\n`);
  };
}

/** An error of a provider. */
export function status(code: number, headers: Readonly<Record<string, string>> = {}): Behavior {
  return (_request, response) => {
    const body = JSON.stringify({ error: { message: "no", type: "error", code: null, param: null } });
    response.writeHead(code, { "content-type": "application/json", ...headers }).end(body);
  };
}

/** Closes the connection without a response. */
export const reset: Behavior = ({ socket }) => socket.destroy();

/** Gets the request, and never responds. */
export const silent: Behavior = () => undefined;

/** The head of a stream and `text`, then `end`. */
export function opened(text: string, end: "open" | "cut" | "finished"): Behavior {
  return ({ socket }, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    if (text !== "") response.write(text);
    if (end === "finished") response.end();
    if (end === "cut") setImmediate(() => socket.destroy());
  };
}

/** A stream that is cut after its first event. */
export const cutAfterEvent = opened(event({ ...chunk, choices: delta("half") }), "cut");

/** A whole response of which the first byte never comes. */
export const cutJson: Behavior = ({ socket }, response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
  response.flushHeaders();
  setImmediate(() => socket.destroy());
};

export interface FailoverGateway {
  readonly gateway: TestGateway;
  readonly providers: readonly RunningProvider[];
  /** The tokens that were charged, by the headers of a request that reaches no provider. */
  charged(): Promise<number>;
  /** Sends a chat completion. */
  chat(init?: { readonly stream?: boolean; readonly headers?: Readonly<Record<string, string>> }): Promise<Response>;
}

export interface FailoverOptions extends TestGatewayOptions {
  /** `spec.ai.failover`, as flow YAML. */
  readonly failover?: string;
  /** Further fields of the rule, as flow YAML. */
  readonly rule?: string;
  /** Entries of the limits. Default: many tokens. */
  readonly local?: readonly string[];
  /** A further document. */
  readonly more?: string;
  /** `spec.traffic.rateLimit.refundOn`, as flow YAML. */
  readonly refundOn?: string;
}

const limit = 1_000_000;

/** Starts the providers, and a gateway whose only route leads to the Backend `chat` with all of them. */
export async function startFailover(
  list: readonly Provider[],
  { failover, rule, local = [`{ tokens: ${limit}, unit: Hours }`], refundOn, more, ...options }: FailoverOptions = {},
): Promise<FailoverGateway> {
  const servers = await Promise.all(list.map((provider) => startProvider(provider)));
  const documents = list.map(({ name, ai = "provider: { openaiCompatible: {} }", isPassthrough = false }, place) => {
    const auth = isPassthrough ? "" : `, auth: { secretRef: { name: ${name} } }`;
    return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { ${ai}, host: 127.0.0.1, port: ${servers[place]?.port ?? 0}${auth} } }
---
apiVersion: v1
kind: Secret
metadata: { name: ${name}, namespace: default }
stringData: { apiKey: key-of-${name} }
`;
  });
  const entries = list.map(({ name, priority = 0, weight = 1 }) => {
    return `{ backendRef: { name: ${name} }, priority: ${priority}, weight: ${weight} }`;
  });
  const chat = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: chat, namespace: default }
spec: { ai: { providers: [${entries.join(", ")}]${failover === undefined ? "" : `, failover: ${failover}`} } }
`;
  const route = routeManifest("chat", [
    `{ ${rule === undefined ? "" : `${rule}, `}backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: chat }] }`,
  ]);
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", local);
  const limits = refundOn === undefined ? policy : `${policy}      refundOn: ${refundOn}\n`;
  const gateway = await startGateway(
    manifests(gatewayManifest(), chat, ...documents, route, limits, ...(more === undefined ? [] : [more])),
    options,
  );
  const body = (isStream: boolean): string =>
    JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }], ...(isStream && { stream: true }) });
  return {
    gateway,
    providers: servers.map(({ provider }) => provider),
    async charged() {
      const { headers } = await fetch(`${gateway.url()}/nothing`, { method: "POST" });
      return limit - Number(headers.get("x-ratelimit-remaining"));
    },
    chat: ({ stream: isStream = false, headers = {} } = {}) =>
      fetch(`${gateway.url()}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: body(isStream),
      }),
  };
}

async function startProvider({ script }: Provider): Promise<{ port: number; provider: RunningProvider }> {
  const received: ReceivedRequest[] = [];
  if (script === "away") return { port: await freePort(), provider: { received, behave: () => undefined } };
  let current = script;
  let count = 0;
  const backend: TestBackend = await startBackend((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (bytes: Buffer) => chunks.push(bytes));
    request.on("end", () => {
      const { url: path = "", headers, socket } = request;
      const found = { path, headers, socket, body: Buffer.concat(chunks).toString() };
      received.push(found);
      current[Math.min(count++, current.length - 1)]?.(found, response);
    });
  });
  const behave = (...next: readonly Behavior[]): void => {
    current = next;
    count = 0;
  };
  return { port: backend.port, provider: { received, behave } };
}

/** Returns the text of a response, whole or streamed. */
export async function contentOf(response: Response): Promise<string> {
  const text = await response.text();
  return [...text.matchAll(/"content":"([^"]*)"/g)].map(([, content = ""]) => content).join("");
}
