/** Edits of a Backend while requests are in progress: each version's key is sent only to the server of that version. */
import { once } from "node:events";
import { createConnection, type Socket } from "node:net";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, routeManifest, startGateway, type TestGateway } from "../support/gateway.ts";

function configuration(provider: string, { port }: TestBackend, key: string): string {
  return manifests(
    gatewayManifest(),
    `
apiVersion: v1
kind: Secret
metadata: { name: key, namespace: default }
stringData: { apiKey: ${key} }
`,
    `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { ${provider}: {} }, host: 127.0.0.1, port: ${port}, auth: { secretRef: { name: key } } } }
`,
    routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]),
  );
}

/** A request that is routed, and whose body is not yet sent. */
async function beginRequest(gateway: TestGateway): Promise<{ readonly finish: () => void; readonly socket: Socket }> {
  const socket = createConnection(Number(new URL(gateway.url()).port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const body = '{"model":"m"}';
  const head = ["POST /v1/chat/completions HTTP/1.1", "Host: a", "Content-Type: application/json"];
  socket.write([...head, `Content-Length: ${body.length}`, "Expect: 100-continue", "", ""].join("\r\n"));
  const [first] = (await once(socket, "data")) as [Buffer];
  expect(first.toString("latin1")).toMatch(/^HTTP\/1\.1 100 /);
  return { finish: () => void socket.write(body), socket };
}

const keysOf = ({ requests }: TestBackend) =>
  requests.map(({ headers }) => headers.authorization ?? headers["x-api-key"]);

test("a request from before an edit sends the old key to the old server, a later one the new key to the new server", async () => {
  const [before, after] = [await startBackend(respondWith(200, "{}")), await startBackend(respondWith(200, "{}"))];
  const gateway = await startGateway(configuration("openai", before, "sk-before"));
  const began = await beginRequest(gateway);
  await gateway.apply(configuration("anthropic", after, "sk-after"));
  const later = await beginRequest(gateway);
  later.finish();
  await waitFor(() => expect(after.requests).toHaveLength(1));
  began.finish();
  await waitFor(() => expect(before.requests).toHaveLength(1));
  expect([keysOf(before), keysOf(after)]).toEqual([["Bearer sk-before"], ["sk-after"]]);
});

test("a request from two edits ago sends its key to its server, even if the Backend is deleted", async () => {
  const servers = [await startBackend(respondWith(200, "{}")), await startBackend(respondWith(200, "{}"))] as const;
  const gateway = await startGateway(configuration("openai", servers[0], "sk-0"));
  const began = await beginRequest(gateway);
  await gateway.apply(configuration("openai", servers[1], "sk-1"));
  await gateway.apply(manifests(gatewayManifest()));
  const received = once(began.socket, "data");
  began.finish();
  const [response] = (await received) as [Buffer];
  expect(response.toString("latin1")).toMatch(/^HTTP\/1\.1 200 /);
  expect([keysOf(servers[0]), keysOf(servers[1])]).toEqual([["Bearer sk-0"], []]);
});

test("a new key for the same server uses the open connections", async () => {
  const server = await startBackend(respondWith(200, "{}"));
  const gateway = await startGateway(configuration("openai", server, "sk-before"));
  const send = async () => {
    const request = await beginRequest(gateway);
    const received = once(request.socket, "data");
    request.finish();
    await received;
  };
  await send();
  await gateway.apply(configuration("openai", server, "sk-after"));
  await send();
  expect(keysOf(server)).toEqual(["Bearer sk-before", "Bearer sk-after"]);
  expect(new Set(server.requests.map(({ socket }) => socket.remotePort)).size).toBe(1);
});
