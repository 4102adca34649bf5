/** A watch of a scripted API server, on a fake clock. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, onTestFinished, vi } from "vitest";
import { ClusterConnection } from "../connection.ts";
import type { KubeObject } from "../object.ts";
import type { ObjectWatch } from "../object-watch.ts";
import { watchObjects } from "../watch.ts";
import { configMap, listOf, openScriptedApiServer, type ScriptedApiServer } from "./scripted-api-server.ts";

/** The watch of a test. */
export interface Watching {
  readonly server: ScriptedApiServer;
  readonly connection: ClusterConnection;
  readonly clock: FakeClock;
  readonly watch: ObjectWatch<KubeObject>;
  readonly names: () => readonly string[];
}

/** The collection that is watched, unless a test has others. */
export const path = "/api/v1/configmaps";
/** Lines of the levels error, info, debug and trace. */
export const quiet = vi.fn();
export const warn = vi.fn();
const log = { error: quiet, warn, info: quiet, debug: quiet, trace: quiet, isLevelEnabled: () => false };

/** Begins to watch. */
export async function watching(
  paths: readonly [string, ...string[]] = [path],
  read: (object: KubeObject, before: KubeObject | undefined) => KubeObject | undefined = (object) => object,
  onChange: () => void = () => undefined,
): Promise<Watching> {
  const server = await openScriptedApiServer();
  const clock = new FakeClock();
  const connection = new ClusterConnection(server.cluster);
  const watch = watchObjects<KubeObject>({
    connection,
    clock,
    // The whole of every wait.
    random: () => 1,
    log,
    paths,
    read,
    onChange,
  });
  onTestFinished(() => {
    watch.close();
    connection.close();
  });
  return { server, connection, clock, watch, names: () => [...watch.objects.keys()] };
}

/** Responds to the first list with `items` and opens the watch that follows. */
export async function synced(items: readonly object[] = [configMap("a", 1)]) {
  const all = await watching();
  (await all.server.next()).respond(200, listOf(10, items));
  const stream = await all.server.next();
  stream.open();
  return { ...all, stream };
}

/** The next request, once the clock has been moved on for it. */
export async function nextOf(server: ScriptedApiServer, clock: FakeClock) {
  const next = server.next();
  let isHere = false;
  void next.then(() => (isHere = true));
  await waitFor(
    () => {
      clock.advance(1_000);
      expect(isHere).toBe(true);
    },
    { timeout: 10_000 },
  );
  return await next;
}
