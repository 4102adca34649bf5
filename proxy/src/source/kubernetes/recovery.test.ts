/** What changes wait for after an outage of the API server. */
import { describe, expect, test } from "vitest";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import type { ApiCall } from "../../kube/testing/scripted-api-server.ts";
import { Recovery } from "./recovery.ts";
import { endpointSlice, event, listing, namesOf, service, settle, sourcing } from "./testing/scripted-source.ts";

describe("after an outage of the API server, changes", () => {
  /** Ends an outage after which the Services have changed, and the request for the endpoints has no response yet. */
  async function servicesBack(options: Parameters<typeof sourcing>[1] = {}) {
    const all = await sourcing({}, options);
    await all.publishedTimes(1);
    return await servicesBackOf(all);
  }

  async function servicesBackOf(all: Awaited<ReturnType<typeof sourcing>>) {
    const held: ApiCall[] = [];
    const { watches, responses, lists, quieten } = all;
    for (const [collection, watch] of watches) {
      responses[collection] = (call) => call.cut();
      watch.cut();
    }
    for (let second = 0; second < 2; second++) await quieten(1_000);
    for (const collection of watches.keys()) responses[collection] = listing([]);
    Object.assign(responses, { services: listing([service("a")]), endpointslices: (call: ApiCall) => held.push(call) });
    const before = lists.length;
    await waitFor(async () => {
      await quieten(1_000);
      expect(lists.length).toBeGreaterThan(before);
    });
    // All kinds are listed without a further wait.
    await waitFor(() => expect(held).toHaveLength(1));
    return { ...all, list: held[0] };
  }

  test("wait until all kinds are current", async () => {
    const { published, list, quieten, publishedTimes, source } = await servicesBack();
    await quieten(1_000);
    expect([published.length, source.isRecovering]).toEqual([1, true]);
    list?.respond(200, { kind: "List", metadata: { resourceVersion: "9" }, items: [endpointSlice("b")] });
    const { resources } = await publishedTimes(2);
    expect([namesOf(resources.Service), namesOf(resources.EndpointSlice)]).toEqual([["a"], ["b"]]);
    expect(source.isRecovering).toBe(false);
  });

  test("wait from the end of the outage, also where one kind was out of date before the others", async () => {
    const all = await sourcing();
    const { responses, watches, send, quieten, published, publishedTimes, source } = all;
    await publishedTimes(1);
    responses["services"] = (call) => call.cut();
    watches.get("services")?.cut();
    await waitFor(async () => {
      await quieten(1_000);
      expect(source.isRecovering).toBe(true);
    });
    await send("endpointslices", event("ADDED", endpointSlice("a")));
    await publishedTimes(2);
    await servicesBackOf(all);
    await quieten(1_000);
    expect([published.length, source.isRecovering]).toEqual([2, true]);
  });

  test("are not published from a copy that was made before the last kind was listed", async () => {
    let isSelecting = false;
    const { published, list, quieten, publishedTimes, selections } = await servicesBack({
      isSelecting: () => isSelecting,
    });
    isSelecting = true;
    const before = selections.length;
    await waitFor(async () => {
      await quieten();
      expect(selections.length).toBeGreaterThan(before);
    });
    list?.respond(200, { kind: "List", metadata: { resourceVersion: "9" }, items: [endpointSlice("b")] });
    await settle();
    isSelecting = false;
    await publishedTimes(2);
    expect(published.map(({ resources }) => namesOf(resources.EndpointSlice))).toEqual([[], ["b"]]);
  });

  test("are awaited by others until they are published", async () => {
    const { published, list, quieten, publishedTimes, source } = await servicesBack();
    list?.respond(200, { kind: "List", metadata: { resourceVersion: "9" }, items: [endpointSlice("b")] });
    await quieten(0);
    expect([published.length, source.isRecovering]).toEqual([1, true]);
    await publishedTimes(2);
    expect(source.isRecovering).toBe(false);
  });

  test("are not awaited for longer than 3 s after any event of another kind, if there are none", async () => {
    const { source, responses, watches, send, quieten, publishedTimes } = await sourcing();
    await publishedTimes(1);
    responses["services"] = (call) => call.cut();
    watches.get("services")?.cut();
    await quieten(10_000);
    expect(source.isRecovering).toBe(true);
    await send("endpointslices", {
      type: "BOOKMARK",
      object: { ...endpointSlice(""), metadata: { resourceVersion: "2" } },
    });
    await quieten(1_000);
    expect(source.isRecovering).toBe(true);
    await quieten(3_000);
    await quieten();
    expect(source.isRecovering).toBe(false);
  });

  test("wait for 3 s at most", async () => {
    const { publishedTimes, quieten } = await servicesBack();
    await quieten(3_000);
    expect(namesOf((await publishedTimes(2)).resources.Service)).toEqual(["a"]);
  });
});

describe("while kinds become out of date again and again, changes", () => {
  /** After two kinds have become out of date in turns for 6 s. */
  function failing() {
    const clock = new FakeClock();
    const recovery = new Recovery(clock, () => undefined);
    for (let waitedMs = 0; waitedMs < 6_000; waitedMs += 1_000) {
      recovery.becameOutOfDate(false);
      expect(recovery.leftMs).toBe(Number.POSITIVE_INFINITY);
      clock.advance(500);
      recovery.received();
      expect(recovery.leftMs).toBe(Math.min(3_000, 5_500 - waitedMs));
      clock.advance(500);
    }
    return { clock, recovery };
  }

  test("wait for 6 s in all, and again after all kinds were current", () => {
    const { recovery } = failing();
    recovery.becameOutOfDate(false);
    expect([recovery.leftMs, recovery.hasWaitedLong]).toEqual([0, true]);
    recovery.ended(false);
    recovery.becameOutOfDate(false);
    expect([recovery.leftMs, recovery.isBehind]).toEqual([0, false]);
    recovery.ended(true);
    recovery.becameOutOfDate(false);
    expect([recovery.leftMs, recovery.isBehind]).toEqual([Number.POSITIVE_INFINITY, true]);
  });

  test("wait for 3 s after an outage for all", () => {
    const { clock, recovery } = failing();
    recovery.ended(false);
    recovery.becameOutOfDate(true);
    clock.advance(3_600_000);
    expect(recovery.leftMs).toBe(Number.POSITIVE_INFINITY);
    recovery.received();
    expect(recovery.leftMs).toBe(3_000);
  });
});
