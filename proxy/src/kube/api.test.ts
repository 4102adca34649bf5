import { expect, onTestFinished, test } from "vitest";
import { KubeApi } from "./api.ts";
import { ClusterConnection } from "./connection.ts";
import { openScriptedApiServer } from "./testing/scripted-api-server.ts";

test("a request to a silent server fails after its idle timeout, and the next one uses another connection", async () => {
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  onTestFinished(() => connection.close());
  const api = new KubeApi(connection, 200);
  await expect(api.get("/api/v1/namespaces/a")).rejects.toThrow("sent nothing for 0.2 s");
  await server.next();
  // Its timeout is the default one, since a busy machine may take longer than the short one.
  const response = new KubeApi(connection).get("/api/v1/namespaces/b");
  (await server.next()).respond(200, { metadata: { name: "b" } });
  expect(await response).toEqual({ metadata: { name: "b" } });
});
