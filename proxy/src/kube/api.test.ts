import { expect, onTestFinished, test } from "vitest";
import { KubeApi } from "./api.ts";
import { ClusterConnection } from "./connection.ts";
import { openScriptedApiServer } from "./testing/scripted-api-server.ts";

test("a request to a silent server fails after its idle timeout, and the next one uses another connection", async () => {
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  onTestFinished(() => connection.close());
  const api = new KubeApi(connection, { silenceMs: 200 });
  await expect(api.get("/api/v1/namespaces/a")).rejects.toThrow("sent nothing for 0.2 s");
  await server.next();
  // Its timeout is the default one, since a busy machine may take longer than the short one.
  const response = new KubeApi(connection).get("/api/v1/namespaces/b");
  (await server.next()).respond(200, { metadata: { name: "b" } });
  expect(await response).toEqual({ metadata: { name: "b" } });
});

test("a change of several requests ends when no more may be written, and reads do not", async () => {
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  onTestFinished(() => connection.close());
  let mayWrite = true;
  const api = new KubeApi(connection, { mayWrite: () => mayWrite });
  const path = "/api/v1/namespaces/a";
  const change = api.get(path).then(() => api.apply(path, {}, { fieldManager: "test" }));
  mayWrite = false;
  (await server.next()).respond(200, {});
  await expect(change).rejects.toThrow("this replica does not lead");
  for (const write of [() => api.merge(path, {}), () => api.replace(path, {}), () => api.delete(path, "uid")]) {
    await expect(write()).rejects.toThrow("this replica does not lead");
  }
  const read = api.get(path);
  const call = await server.next();
  expect(call.url.pathname).toBe(path);
  call.respond(200, {});
  await read;
});

test("a write whose credentials are read while another replica takes over is not sent", async () => {
  const server = await openScriptedApiServer();
  const { promise, resolve } = Promise.withResolvers<object>();
  const connection = new ClusterConnection({ ...server.cluster, credentials: () => promise });
  onTestFinished(() => connection.close());
  let mayWrite = true;
  const api = new KubeApi(connection, { mayWrite: () => mayWrite });
  const write = api.delete("/api/v1/namespaces/a", "uid");
  mayWrite = false;
  resolve({});
  await expect(write).rejects.toThrow("this replica does not lead");
  expect(server.waiting).toBe(0);
});
