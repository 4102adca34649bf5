/** Realtime sessions through a gateway with a token limit, to a provider that the test implements. */
import { once } from "node:events";
import { WebSocket } from "ws";
import {
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "./gateway.ts";
import type { UpgradeBackend } from "./upgrades.ts";

const usageOf = (tokens: number) => ({ total_tokens: tokens, input_tokens: tokens - 2, output_tokens: 2 });
export const createdEvent = JSON.stringify({ type: "response.created", response: { usage: null } });
export const doneEvent = (tokens: number): string =>
  JSON.stringify({ type: "response.done", response: { output: ["x".repeat(500)], usage: usageOf(tokens) } });

/** A provider: each `response.create` of a client gets a response that costs as many tokens as its `metadata` says. */
export function realtime(client: WebSocket): void {
  client.on("error", () => undefined);
  client.send(JSON.stringify({ type: "session.created", session: { model: "gpt-realtime" } }));
  client.on("message", (data: Buffer) => {
    const event = JSON.parse(String(data)) as { type: string; response?: { metadata?: { tokens: unknown } } };
    if (event.type !== "response.create") return;
    client.send(createdEvent);
    client.send(JSON.stringify({ type: "response.output_text.delta", delta: "Hello" }));
    client.send(doneEvent(Number(event.response?.metadata?.tokens ?? 10)));
  });
}

/** @param ai further fields of `spec.ai`. */
export const llmManifest = ({ port }: Pick<UpgradeBackend, "port">, ai = ""): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port}, upgrades: Allow, ${ai} } }
`;

/** @param ai as for `llmManifest`. */
export async function startRealtime(
  backend: Pick<UpgradeBackend, "port">,
  local = "{ tokens: 100, unit: Hours }",
  ai = "",
  options: TestGatewayOptions = {},
): Promise<TestGateway> {
  return startGateway(
    manifests(
      gatewayManifest(),
      llmManifest(backend, ai),
      routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
      policyManifest("limits", "kind: HTTPRoute, name: chat", [local]),
    ),
    options,
  );
}

export const urlOf = (gateway: TestGateway, path = "/v1/realtime?model=gpt-realtime") =>
  `${gateway.url().replace("http", "ws")}${path}`;

export async function openSession(gateway: TestGateway, path?: string): Promise<WebSocket> {
  const client = new WebSocket(urlOf(gateway, path));
  client.on("error", () => undefined);
  await once(client, "open");
  return client;
}

/** Requests a response, and resolves at its end or at that of the session. */
export async function respond(client: WebSocket, tokens: number): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    client.on("message", (data: Buffer) => {
      if (data.includes("response.done")) resolve();
    });
    client.once("close", () => resolve());
  });
  client.send(JSON.stringify({ type: "response.create", response: { metadata: { tokens } } }));
  await ended;
}

export async function closeOf(client: WebSocket): Promise<[number, string]> {
  const [code, reason] = (await once(client, "close")) as [number, Buffer];
  return [code, String(reason)];
}

/** The tokens that are left, by a new session's head. */
export async function remaining(gateway: TestGateway): Promise<number> {
  const client = new WebSocket(urlOf(gateway));
  client.on("error", () => undefined);
  const [head] = (await once(client, "upgrade")) as [{ headers: Record<string, string> }];
  client.terminate();
  return Number(head.headers["x-ratelimit-remaining"]);
}
