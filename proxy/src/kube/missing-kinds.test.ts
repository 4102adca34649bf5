/** What a watch makes of responses that the API server does not serve its kind, or not in a version that is read. */
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { configMap, listOf } from "./testing/scripted-api-server.ts";
import { nextOf, synced, watching, type Watching } from "./testing/watching.ts";

describe("an API server that", () => {
  test("does not know the kind is requested again from time to time", async () => {
    const { server, clock, watch, names } = await watching();
    (await server.next()).respond(404, {});
    (await server.next()).respond(200, { major: "1", minor: "36" });
    await waitFor(() => expect(watch.state).toEqual({ kind: "absent" }));
    (await nextOf(server, clock)).respond(200, listOf(5, [configMap("a", 1)]));
    await server.next();
    expect(watch.state).toEqual({ kind: "synced" });
    expect(names()).toEqual(["default/a"]);
  });

  test("is away at first behind a load balancer that responds with 404 does not count as one without the kind", async () => {
    const { server, clock, watch } = await watching();
    for (const path of [undefined, "/version", undefined, "/version"]) {
      const call = await nextOf(server, clock);
      if (path !== undefined) expect(call.url.pathname).toBe(path);
      call.respond(404, { message: "no route matched" });
    }
    (await nextOf(server, clock)).respond(200, listOf(12, [configMap("b", 12)]));
    await server.next();
    expect(watch.state).toEqual({ kind: "synced" });
  });

  test("serves an older version of the kind is requested for that", async () => {
    const { server, watch } = await watching(["/apis/x/v1/things", "/apis/x/v1beta1/things"]);
    (await server.next()).respond(404, {});
    const older = await server.next();
    expect(older.url.pathname).toBe("/apis/x/v1beta1/things");
    older.respond(200, listOf(5, []));
    expect((await server.next()).url.pathname).toBe("/apis/x/v1beta1/things");
    expect(watch.state).toEqual({ kind: "synced" });
  });

  test("does not serve a kind for a moment loses none of its objects", async () => {
    const { server, clock, stream, watch, names } = await synced();
    stream.end();
    (await nextOf(server, clock)).respond(404, {});
    (await nextOf(server, clock)).respond(404, {});
    await settle();
    expect(names()).toEqual(["default/a"]);
    (await nextOf(server, clock)).respond(404, {});
    const check = await nextOf(server, clock);
    expect(check.url.pathname).toBe("/version");
    check.respond(200, { major: "1", minor: "36" });
    await waitFor(() => expect(watch.state).toEqual({ kind: "absent" }));
    expect(names()).toEqual([]);
  });

  describe("does not serve the versions that are read any more", () => {
    const collection = (version: string) => `/apis/example.org/${version}/things`;
    const discovery: Readonly<Record<string, unknown>> = {
      "/version": { major: "1", minor: "36" },
      "/apis/example.org": { versions: [{ version: "v1" }, { version: "v2" }] },
      "/apis/example.org/v1": { resources: [{ name: "others" }] },
      "/apis/example.org/v2": { resources: [{ name: "things" }, { name: "things/status" }] },
    };
    /** Responds to discovery, and with 404 to lists, as many times. */
    async function missing({ server, clock }: Watching, times: number, found = discovery): Promise<void> {
      for (let lists = 0; lists < times; ) {
        const call = await nextOf(server, clock);
        if (call.url.pathname === collection("v1")) lists++;
        call.respond(call.url.pathname in found ? 200 : 404, found[call.url.pathname] ?? {});
      }
    }

    test("loses none of the objects, until it does not know the kind", async () => {
      const all = await watching([collection("v1")]);
      const { server, watch, names } = all;
      (await server.next()).respond(200, listOf(10, [configMap("a", 1)]));
      const stream = await server.next();
      stream.open();
      stream.end();
      await missing(all, 6);
      expect([watch.state.kind, names(), watch.isFailing]).toEqual(["synced", ["default/a"], true]);
      await missing(all, 2, { ...discovery, "/apis/example.org/v2": { resources: [] } });
      expect([watch.state.kind, names()]).toEqual(["absent", []]);
    });

    test("loses no objects while the served versions are unknown", async () => {
      const all = await watching([collection("v1")]);
      const { server, clock, watch, names } = all;
      (await server.next()).respond(200, listOf(10, [configMap("a", 1)]));
      const stream = await server.next();
      stream.open();
      stream.end();
      for (let lists = 0; lists < 5; ) {
        const call = await nextOf(server, clock);
        if (call.url.pathname === collection("v1")) lists++;
        if (call.url.pathname === "/apis/example.org/v2") call.cut();
        else call.respond(call.url.pathname in discovery ? 200 : 404, discovery[call.url.pathname] ?? {});
      }
      expect([watch.state.kind, names()]).toEqual(["synced", ["default/a"]]);
    });

    test("is no API server without the kind", async () => {
      const all = await watching([collection("v1")]);
      await missing(all, 2);
      expect(all.watch.state).toEqual({ kind: "unread", versions: ["v2"] });
    });

    test("has the same objects in another version, which are read again", async () => {
      const { server, watch, clock } = await watching([collection("v1"), collection("v0")]);
      const versioned = (apiVersion: string) => listOf(10, [{ ...configMap("a", 1), apiVersion }]);
      (await server.next()).respond(200, versioned("example.org/v1"));
      const stream = await server.next();
      stream.open();
      stream.end();
      (await nextOf(server, clock)).respond(404, {});
      (await nextOf(server, clock)).respond(200, versioned("example.org/v0"));
      await server.next();
      expect(watch.objects.get("default/a")).toMatchObject({ apiVersion: "example.org/v0" });
    });
  });

  test("is away behind a load balancer that responds with 404 loses none of its objects", async () => {
    const { server, clock, stream, watch, names } = await synced();
    stream.end();
    for (const path of [undefined, undefined, undefined, "/version", undefined, "/version"]) {
      const call = await nextOf(server, clock);
      if (path !== undefined) expect(call.url.pathname).toBe(path);
      call.respond(404, { message: "no route matched" });
    }
    await waitFor(() => expect(watch.isFailing).toBe(true));
    expect([watch.state.kind, names()]).toEqual(["synced", ["default/a"]]);
    (await nextOf(server, clock)).respond(200, listOf(12, [configMap("b", 12)]));
    expect((await server.next()).isWatch).toBe(true);
    expect([watch.isFailing, names()]).toEqual([false, ["default/b"]]);
  });

  test("forbids it leaves its message in the state", async () => {
    const { server, watch } = await watching();
    (await server.next()).respond(403, { message: 'configmaps is forbidden: User "x" cannot list' });
    await waitFor(() =>
      expect(watch.state).toEqual({ kind: "forbidden", message: 'configmaps is forbidden: User "x" cannot list' }),
    );
  });
});

/** Lets sockets and promises have their turn. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}
