import { expect, onTestFinished, test } from "vitest";
import { KubeApi } from "./api.ts";
import { ClusterConnection } from "./connection.ts";
import { openScriptedApiServer } from "./testing/scripted-api-server.ts";

test("a request to a server that is silent fails after the time that is given, and the next one takes another connection", async () => {
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  onTestFinished(() => connection.close());
  const api = new KubeApi(connection, 200);
  await expect(api.get("/api/v1/namespaces/a")).rejects.toThrow("silent for 0.2 s");
  await server.next();
  const answered = api.get("/api/v1/namespaces/b");
  (await server.next()).answer(200, { metadata: { name: "b" } });
  expect(await answered).toEqual({ metadata: { name: "b" } });
});
