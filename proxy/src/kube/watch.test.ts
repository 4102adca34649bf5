import type { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test, vi } from "vitest";
import type { ClusterConnection } from "./connection.ts";
import { isObject, type KubeObject } from "./object.ts";
import { type ApiCall, configMap, listOf, type ScriptedApiServer } from "./testing/scripted-api-server.ts";
import { nextOf, path, quiet, synced, warn, watching } from "./testing/watching.ts";

const added = (object: object) => ({ type: "ADDED", object });
const bookmark = (version: number) => ({
  type: "BOOKMARK",
  object: { metadata: { resourceVersion: String(version) } },
});

describe("objects", () => {
  test("are those of all pages of the list, and the watch begins where the list ends", async () => {
    const { server, watch, names } = await watching();
    const first = await server.next();
    expect(first.url.searchParams.get("limit")).toBe("100");
    first.respond(200, listOf(10, [configMap("a", 1)], "more"));
    const second = await server.next();
    expect(second.url.searchParams.get("continue")).toBe("more");
    second.respond(200, listOf(10, [configMap("b", 2)]));
    const stream = await server.next();
    expect(stream.url.searchParams.get("resourceVersion")).toBe("10");
    expect(watch.state).toEqual({ kind: "synced" });
    expect(names()).toEqual(["default/a", "default/b"]);
  });

  test("of one page are read in several turns of the event loop", async () => {
    let turns = 0;
    let isDone = false;
    const count = (): void => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    const turnsAt: number[] = [];
    const { server, watch } = await watching([path], (object) => {
      turnsAt.push(turns);
      for (const endMs = performance.now() + 2; performance.now() < endMs; );
      return object;
    });
    const first = await server.next();
    setImmediate(count);
    first.respond(
      200,
      listOf(
        10,
        Array.from({ length: 20 }, (_, at) => configMap(`m${at}`, at)),
      ),
    );
    await server.next();
    isDone = true;
    expect(watch.objects.size).toBe(20);
    // A turn is over after 5 ms.
    expect(new Set(turnsAt).size).toBeGreaterThan(3);
  });

  test("of many events in one chunk are read in several turns of the event loop", async () => {
    const turnOf: number[] = [];
    let turn = 0;
    const all = await watching([path], (object) => {
      turnOf.push(turn);
      all.clock.advance(10);
      return object;
    });
    (await all.server.next()).respond(200, listOf(10, []));
    const stream = await all.server.next();
    stream.open();
    const count = (): void => {
      turn++;
      if (turnOf.length < 20) setImmediate(count);
    };
    setImmediate(count);
    stream.send(...Array.from({ length: 20 }, (_, at) => added(configMap(`m${at}`, 11 + at))));
    await waitFor(() => expect(all.watch.objects.size).toBe(20));
    // Each event takes longer than a turn may.
    expect(new Set(turnOf).size).toBe(20);
  });

  test("have their kind, though items of a list have none", async () => {
    const { watch } = await synced([{ metadata: { namespace: "default", name: "a" } }]);
    expect(watch.objects.get("default/a")).toMatchObject({ apiVersion: "v1", kind: "ConfigMap" });
  });

  test("are added, changed and removed by the events", async () => {
    const { stream, watch, names } = await synced();
    stream.send(added(configMap("b", 11)), { type: "MODIFIED", object: configMap("a", 12, { x: "new" }) });
    await waitFor(() => expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "new" } }));
    expect(names()).toEqual(["default/a", "default/b"]);
    stream.send({ type: "DELETED", object: configMap("a", 13) });
    await waitFor(() => expect(names()).toEqual(["default/b"]));
  });

  test("that are read as before are no change, such as after a write of a status", async () => {
    const onChange = vi.fn();
    const dataOf = ({ data }: KubeObject): string => JSON.stringify(data);
    const readData = (object: KubeObject, before: KubeObject | undefined): KubeObject =>
      before !== undefined && dataOf(before) === dataOf(object) ? before : object;
    const { server, watch } = await watching([path], readData, onChange);
    (await server.next()).respond(200, listOf(10, [configMap("a", 1)]));
    const stream = await server.next();
    stream.open();
    const listed = onChange.mock.calls.length;
    stream.send({ type: "MODIFIED", object: configMap("a", 11) }, added(configMap("b", 12)));
    await waitFor(() => expect(watch.objects.size).toBe(2));
    expect(onChange).toHaveBeenCalledTimes(listed + 1);
    stream.send({ type: "DELETED", object: configMap("b", 13) });
    await waitFor(() => expect(watch.objects.size).toBe(1));
    expect(onChange).toHaveBeenCalledTimes(listed + 2);
  });

  test("arrive whole, however the events are split and whatever they contain", async () => {
    const { stream, watch } = await synced([]);
    const line = `${JSON.stringify(added(configMap("b", 11, { x: "one\u2028two" })))}\n`;
    stream.send(line.slice(0, 30));
    stream.send(line.slice(30));
    await waitFor(() => expect(watch.objects.get("default/b")).toMatchObject({ data: { x: "one\u2028two" } }));
  });

  test("are watched from the last received version when a watch ends or is reset", async () => {
    const { server, clock, stream, names } = await synced();
    stream.send(bookmark(20));
    stream.end();
    const again = await nextOf(server, clock);
    expect(again.isWatch).toBe(true);
    expect(again.url.searchParams.get("resourceVersion")).toBe("20");
    again.open();
    again.send(bookmark(21));
    again.cut();
    await respondToCheck(server, clock, 30);
    const third = await nextOf(server, clock);
    expect(third.isWatch).toBe(true);
    expect(third.url.searchParams.get("resourceVersion")).toMatch(/^2[01]$/);
    expect(names()).toEqual(["default/a"]);
  });

  test("stay while the API server cannot be reached, and are listed again then: its state may be older", async () => {
    const { server, clock, stream, watch, names } = await synced([configMap("a", 7), configMap("b", 8)]);
    stream.end();
    (await nextOf(server, clock)).cut();
    const list = await nextOf(server, clock);
    expect([list.isWatch, names()]).toEqual([false, ["default/a", "default/b"]]);
    // The same version of another history.
    list.respond(200, listOf(7, [{ ...configMap("a", 7), data: { x: "restored" } }]));
    expect((await server.next()).url.searchParams.get("resourceVersion")).toBe("7");
    expect(names()).toEqual(["default/a"]);
    expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "restored" } });
  });

  test("are listed as soon as the API server responds to another request again, once until that succeeds", async () => {
    const { server, clock, connection, stream, names } = await synced();
    stream.end();
    (await nextOf(server, clock)).cut();
    for (let failed = 0; failed < 5; failed++) (await nextOf(server, clock)).cut();
    await respondToOther(server, connection);
    const list = await server.next();
    list.respond(500, { message: "no storage" });
    (await nextOf(server, clock)).cut();
    await settle();
    await respondToOther(server, connection);
    await settle();
    expect(server.waiting).toBe(0);
    (await nextOf(server, clock)).respond(200, listOf(11, [configMap("b", 11)]));
    (await nextOf(server, clock)).open();
    expect(names()).toEqual(["default/b"]);
  });

  describe("that were left out", () => {
    /** `b` is left out at first, and `c` is read again. */
    async function leavingOut() {
      let isLeftOut = true;
      const reads: string[] = [];
      const nameOf = ({ metadata }: KubeObject) => (metadata as { name: string }).name;
      const all = await watching([path], (object) => {
        reads.push(nameOf(object));
        return nameOf(object) === "b" && isLeftOut ? undefined : object;
      });
      const items = [configMap("a", 1), configMap("b", 2), configMap("c", 3)];
      (await all.server.next()).respond(200, listOf(10, items));
      const stream = await all.server.next();
      stream.open();
      await settle();
      expect(all.names()).toEqual(["default/a", "default/c"]);
      const listAgain = (): void => {
        isLeftOut = false;
        reads.length = 0;
        all.watch.listAgain(["default"], (object) => nameOf(object) === "c");
      };
      return { ...all, items, stream, reads, listAgain };
    }

    test("are read when their namespace is listed again, also if the first list fails", async () => {
      const { server, clock, items, reads, names, listAgain } = await leavingOut();
      listAgain();
      (await nextOf(server, clock)).respond(500, { message: "no storage" });
      const second = await nextOf(server, clock);
      expect([second.isWatch, second.url.pathname]).toEqual([false, "/api/v1/namespaces/default/configmaps"]);
      second.respond(200, listOf(10, items));
      await waitFor(() => expect(names()).toEqual(["default/a", "default/c", "default/b"]));
      expect(reads).toEqual(["b", "c"]);
    });

    test("do not delay the events of the others while they are listed", async () => {
      const { server, clock, stream, items, watch, names, listAgain } = await leavingOut();
      listAgain();
      const first = await nextOf(server, clock);
      stream.send(added(configMap("d", 11)), { type: "MODIFIED", object: configMap("a", 12, { x: "new" }) });
      await waitFor(() => expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "new" } }));
      first.respond(200, listOf(10, items.slice(0, 2), "more"));
      const second = await nextOf(server, clock);
      // Events are newer than the list.
      stream.send({ type: "DELETED", object: configMap("c", 13) });
      await waitFor(() => expect(names()).toEqual(["default/a", "default/d", "default/b"]));
      second.respond(200, listOf(10, items.slice(2)));
      await settle();
      expect(names()).toEqual(["default/a", "default/d", "default/b"]);
      expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "new" } });
      expect(server.waiting).toBe(0);
    });

    test("are not read of an older list once all objects are listed", async () => {
      const { server, clock, stream, items, names, listAgain } = await leavingOut();
      listAgain();
      const beside = await nextOf(server, clock);
      stream.send({ type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
      const whole = await nextOf(server, clock);
      expect(whole.url.pathname).toBe(path);
      beside.respond(200, listOf(10, items));
      whole.respond(200, listOf(14, [configMap("b", 2)]));
      (await nextOf(server, clock)).open();
      await settle();
      expect(names()).toEqual(["default/b"]);
      expect(server.waiting).toBe(0);
    });

    test("are listed after a list of all objects, if that is asked for meanwhile", async () => {
      const { server, clock, watch } = await watching();
      const first = await server.next();
      watch.listAgain(["default"], () => true);
      await settle();
      expect(server.waiting).toBe(0);
      first.respond(200, listOf(10, [configMap("a", 1)]));
      const paths = [(await nextOf(server, clock)).url.pathname, (await nextOf(server, clock)).url.pathname];
      expect(paths.sort()).toEqual([path, "/api/v1/namespaces/default/configmaps"]);
    });
  });

  test("may be out of date while requests fail", async () => {
    const { server, clock, stream, watch } = await synced();
    expect(watch.isFailing).toBe(false);
    stream.end();
    // The ServiceAccount was deleted: its token is not valid any more.
    (await nextOf(server, clock)).respond(401, { kind: "Status", code: 401, message: "Unauthorized" });
    const again = await nextOf(server, clock);
    expect(again.url.searchParams.get("limit")).toBe("1");
    expect([watch.isFailing, watch.state]).toEqual([true, { kind: "synced" }]);
    again.respond(200, listOf(10, []));
    (await nextOf(server, clock)).open();
    await waitFor(() => expect(watch.isFailing).toBe(false));
  });

  test("are out of date from an outage until they are listed, or until the API server has responded with errors", async () => {
    let changes = 0;
    const { server, clock, watch } = await watching([path], undefined, () => changes++);
    const begin = async (): Promise<void> => {
      (await nextOf(server, clock)).respond(200, listOf(10, []));
      const stream = await nextOf(server, clock);
      stream.open();
      expect(watch.isOutOfDate).toBe(false);
      stream.end();
      (await nextOf(server, clock)).cut();
      await waitFor(() => expect(watch.isOutOfDate).toBe(true));
    };
    await begin();
    await begin();
    // An API server that starts has not read the roles.
    for (let times = 0; times < 4; times++) (await nextOf(server, clock)).respond(403, { message: "forbidden" });
    (await nextOf(server, clock)).respond(503, { message: "starting" });
    (await nextOf(server, clock)).respond(503, { message: "starting" });
    const third = await nextOf(server, clock);
    expect(watch.isOutOfDate).toBe(true);
    const before = changes;
    third.respond(503, { message: "starting" });
    await waitFor(() => expect(watch.isOutOfDate).toBe(false));
    expect(changes).toBe(before + 1);
  });

  test("are parsed again only where their version changed", async () => {
    const { server, clock, stream, watch } = await synced([configMap("a", 1), configMap("b", 2)]);
    const before = new Map(watch.objects);
    stream.send({ type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
    (await nextOf(server, clock)).respond(200, listOf(30, [configMap("a", 1), configMap("b", 25)]));
    await server.next();
    expect(watch.objects.get("default/a")).toBe(before.get("default/a"));
    expect(isObject(watch.objects.get("default/b")?.["metadata"])).toBe(true);
    expect(watch.objects.get("default/b")).not.toBe(before.get("default/b"));
  });
});

/** Responds to the request for the current version, which follows a watch that was interrupted. */
async function respondToCheck(server: ScriptedApiServer, clock: FakeClock, version: number): Promise<void> {
  const check = await nextOf(server, clock);
  expect([check.isWatch, check.url.searchParams.get("limit")]).toEqual([false, "1"]);
  check.respond(200, listOf(version, [configMap("a", 1)], "more"));
}

/** Sends a request that is not of the watch. */
async function respondToOther(server: ScriptedApiServer, connection: ClusterConnection): Promise<void> {
  const response = connection.requestJson({ path: "/version" });
  const call = await server.next();
  expect(call.url.pathname).toBe("/version");
  call.respond(200, {});
  await response;
}

const restored = { ...configMap("a", 1), data: { x: "restored" } };

describe("an API server with an older state, which", () => {
  test.each<[string, (stream: ApiCall, clock: FakeClock) => void]>([
    ["is there at once after its connections were reset", (stream) => stream.cut()],
    ["is behind a proxy that has responded with 503", (stream) => stream.end()],
    ["keeps the watch of another one open, without events", (_, clock) => clock.advance(150_000)],
  ])("%s, is listed again", async (_, interrupt) => {
    const { server, clock, stream, watch, names } = await synced([configMap("a", 1), configMap("b", 8)]);
    await settle();
    interrupt(stream, clock);
    const first = await nextOf(server, clock);
    if (first.isWatch) first.respond(503, { message: "no API server" });
    const check = first.isWatch ? await nextOf(server, clock) : first;
    expect(check.url.searchParams.get("limit")).toBe("1");
    check.respond(200, listOf(7, [restored]));
    const list = await nextOf(server, clock);
    expect([list.isWatch, list.url.searchParams.get("limit"), watch.isOutOfDate]).toEqual([false, "100", true]);
    list.respond(200, listOf(7, [restored]));
    expect((await server.next()).url.searchParams.get("resourceVersion")).toBe("7");
    expect(names()).toEqual(["default/a"]);
    expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "restored" } });
  });

  test.each([
    ["an event", added(configMap("c", 5))],
    ["a bookmark", bookmark(5)],
  ])("is known by the version of %s, is listed again", async (_, event) => {
    const { server, clock, stream, names } = await synced([configMap("a", 1), configMap("b", 8)]);
    stream.send(event);
    const list = await nextOf(server, clock);
    expect([list.isWatch, list.url.searchParams.get("limit")]).toEqual([false, "100"]);
    list.respond(200, listOf(6, [restored, configMap("c", 5)]));
    expect((await server.next()).url.searchParams.get("resourceVersion")).toBe("6");
    expect(names()).toEqual(["default/a", "default/c"]);
  });

  test("has expired the version of the watch, too, has all of its objects read again", async () => {
    const { server, clock, stream, watch } = await synced([configMap("a", 1)]);
    stream.send({ type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
    (await nextOf(server, clock)).respond(200, listOf(7, [restored]));
    (await nextOf(server, clock)).respond(200, listOf(7, [restored]));
    expect((await server.next()).isWatch).toBe(true);
    expect(watch.objects.get("default/a")).toMatchObject({ data: { x: "restored" } });
  });
});

test("a watch that is silent for minutes starts again from its version; one with bookmarks goes on", async () => {
  const { server, clock, stream, watch } = await synced();
  for (const version of [20, 21, 22]) {
    stream.send(bookmark(version));
    await settle();
    clock.advance(120_000);
    await settle();
    expect(server.waiting).toBe(0);
  }
  clock.advance(30_000);
  await respondToCheck(server, clock, 25);
  const again = await nextOf(server, clock);
  expect([again.isWatch, again.url.searchParams.get("resourceVersion"), watch.isFailing]).toEqual([true, "22", false]);
});

test("a list whose continue token expires between its pages is read as one page", async () => {
  const { server, clock, watch, names } = await watching();
  (await server.next()).respond(200, listOf(10, [configMap("a", 1)], "more"));
  (await server.next()).respond(410, { kind: "Status", code: 410, message: "the continue token has expired" });
  const whole = await nextOf(server, clock);
  expect([whole.isWatch, whole.url.searchParams.get("limit"), whole.url.searchParams.get("continue")]).toEqual([
    ...[false, null, null],
  ]);
  whole.respond(200, listOf(12, [configMap("b", 2), configMap("c", 3)]));
  expect((await server.next()).url.searchParams.get("resourceVersion")).toBe("12");
  expect([names(), watch.state.kind]).toEqual([["default/b", "default/c"], "synced"]);
});

describe("a change after a version that has expired (410 Gone)", () => {
  test("is found by a new list, after an error event", async () => {
    const { server, clock, stream, names } = await synced([configMap("a", 1), configMap("b", 2)]);
    stream.send({ type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
    const list = await nextOf(server, clock);
    expect(list.isWatch).toBe(false);
    list.respond(200, listOf(30, [configMap("b", 2), configMap("c", 3)]));
    await server.next();
    expect(names()).toEqual(["default/b", "default/c"]);
  });

  test("is found by a new list, after an error response", async () => {
    const { server, clock, stream } = await synced();
    stream.end();
    (await nextOf(server, clock)).respond(410, { kind: "Status", code: 410, message: "too old" });
    expect((await nextOf(server, clock)).isWatch).toBe(false);
  });
});

describe("an API server that", () => {
  test("asks for a pause (429) gets no request for that time", async () => {
    const { server, clock } = await watching();
    (await server.next()).respond(429, { message: "too many requests" }, { "retry-after": "7" });
    const next = server.next();
    let isHere = false;
    void next.then(() => (isHere = true));
    await waitFor(() => expect(quiet).toHaveBeenCalled());
    await settle();
    clock.advance(6_900);
    await settle();
    expect(isHere).toBe(false);
    clock.advance(200);
    await next;
    expect(isHere).toBe(true);
  });

  test("asks for pauses (429) again and again is reported once, from the fourth time on", async () => {
    warn.mockClear();
    const { server, clock } = await watching();
    const warned: number[] = [];
    for (let sent = 1; sent <= 6; sent++) {
      const request = server.next();
      // Longer than any pause.
      await waitFor(async () => {
        clock.advance(60_000);
        await settle();
        expect(await Promise.race([request, Promise.resolve(undefined)])).toBeDefined();
      });
      quiet.mockClear();
      (await request).respond(429, { message: "storage is (re)initializing" }, { "retry-after": "1" });
      await waitFor(() => expect(quiet).toHaveBeenCalled());
      warned.push(warn.mock.calls.length);
    }
    expect(warned).toEqual([0, 0, 0, 1, 1, 1]);
  });

  test("ends every watch at once is not asked without pause", async () => {
    const { server, clock, stream } = await synced();
    stream.end();
    await settle();
    expect(server.waiting).toBe(0);
    const again = await nextOf(server, clock);
    again.open();
    again.end();
    await settle();
    expect(server.waiting).toBe(0);
  });

  test("sends invalid data is watched again from the last version, so that no event is lost", async () => {
    const { server, clock, stream } = await synced();
    stream.send(bookmark(15), "{ this is no JSON\n");
    await respondToCheck(server, clock, 15);
    const again = await nextOf(server, clock);
    expect(again.url.searchParams.get("resourceVersion")).toBe("15");
  });
});

/** Lets sockets and promises have their turn. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}
