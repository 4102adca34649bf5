/** What changes wait for after an outage of the API server. */
import { describe, expect, test, vi } from "vitest";
import type { ApiCall } from "../../kube/testing/scripted-api-server.ts";
import { endpointSlice, listing, namesOf, service, sourcing } from "./testing/scripted-source.ts";

describe("after an outage of the API server, changes", () => {
  /** Ends an outage after which the Services have changed, and the request for the endpoints has no response yet. */
  async function servicesBack() {
    const held: ApiCall[] = [];
    const all = await sourcing();
    const { watches, responses, lists, quieten, publishedTimes } = all;
    await publishedTimes(1);
    for (const [collection, watch] of watches) {
      responses[collection] = (call) => call.cut();
      watch.cut();
    }
    for (let second = 0; second < 2; second++) await quieten(1_000);
    for (const collection of watches.keys()) responses[collection] = listing([]);
    Object.assign(responses, { services: listing([service("a")]), endpointslices: (call: ApiCall) => held.push(call) });
    const before = lists.length;
    await vi.waitFor(async () => {
      await quieten(1_000);
      expect(lists.length).toBeGreaterThan(before);
    });
    // All kinds are listed without a further wait.
    await vi.waitFor(() => expect(held).toHaveLength(1));
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

  test("wait for 3 s at most", async () => {
    const { publishedTimes, quieten } = await servicesBack();
    await quieten(3_000);
    expect(namesOf((await publishedTimes(2)).resources.Service)).toEqual(["a"]);
  });
});
