import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { gatewayGroup } from "../../api/names.ts";
import type { ApiCall } from "../../kube/testing/scripted-api-server.ts";
import { maxWatches } from "../../kube/watch-quota.ts";
import {
  endpointSlice,
  event,
  listing,
  llm,
  namesOf,
  object,
  secret,
  service,
  settle,
  sourcing,
  type Handler,
} from "./testing/scripted-source.ts";

describe("the first configuration", () => {
  test("waits until every kind has been listed", async () => {
    const held: ApiCall[] = [];
    const { published, quieten, publishedTimes } = await sourcing({
      services: listing([service("a")]),
      endpointslices: (call) => held.push(call),
    });
    await waitFor(() => expect(held).toHaveLength(1));
    await quieten(60_000);
    expect(published).toEqual([]);
    for (const call of held) listing([])(call);
    const { resources, problems } = await publishedTimes(1);
    expect(namesOf(resources.Service)).toEqual(["a"]);
    expect(problems).toEqual([]);
  });

  test("waits for the Secrets that it refers to, and contains them", async () => {
    const held: ApiCall[] = [];
    const { published, quieten, publishedTimes } = await sourcing({
      backends: listing([llm("key")]),
      "secrets/key": (call) => held.push(call),
    });
    await waitFor(async () => {
      await quieten();
      expect(held).toHaveLength(1);
    });
    expect(published).toEqual([]);
    for (const call of held) listing([secret("key")])(call);
    expect(namesOf((await publishedTimes(1)).resources.Secret)).toEqual(["key"]);
  });

  test("is published without a Secret that the API server does not return within 3 s", async () => {
    const { quieten, publishedTimes } = await sourcing({
      backends: listing([llm("key")]),
      "secrets/key": () => undefined,
    });
    await quieten();
    await quieten(3_000);
    const { resources, problems } = await publishedTimes(1);
    expect(resources.Secret).toEqual([]);
    expect(problems).toEqual([{ message: "cannot read Secret default/key yet; trying again" }]);
  });

  test("is published without a kind that is not installed, which is requested again", async () => {
    const { clock, responses, publishedTimes } = await sourcing({ backends: (call) => call.respond(404, {}) });
    const { problems } = await publishedTimes(1);
    expect(problems.map(({ message }) => message)).toEqual([
      "the API server does not know the kind Backend: its CustomResourceDefinition is missing",
    ]);
    responses["backends"] = listing([llm("key")]);
    clock.advance(10_000);
    const { resources, problems: left } = await publishedTimes(2);
    expect(namesOf(resources.Backend)).toEqual(["llm"]);
    expect(left).toEqual([]);
  });

  test("is published without a kind that may not be read, with a problem that names the verbs", async () => {
    const message = "backendtlspolicies is forbidden";
    const { publishedTimes } = await sourcing({ backendtlspolicies: (call) => call.respond(403, { message }) });
    expect((await publishedTimes(1)).problems).toEqual([
      { message: `cannot read BackendTLSPolicy, which needs the verbs list and watch: ${message}` },
    ]);
  });
});

const route = (name: string) =>
  object(`${gatewayGroup}/v1`, "HTTPRoute", name, { spec: { parentRefs: [{ name: "web" }], rules: [{}] } });

test("a route that has no room in its namespace is rejected, and is read once another one is removed", async () => {
  const [first, second, third] = [route("a"), route("b"), route("c")];
  const { send, responses, clock, lists, publishedTimes } = await sourcing(
    { httproutes: listing([first, second, third]) },
    { maxKindBytes: 8_000 },
  );
  const { resources, rejected, problems, incomplete } = await publishedTimes(1);
  expect(namesOf(resources.HTTPRoute)).toEqual(["a"]);
  expect([...incomplete]).toEqual(["HTTPRoute default"]);
  expect(rejected).toMatchObject([
    { object: { metadata: { name: "b" } }, inForce: "nothing" },
    { object: { metadata: { name: "c" } }, inForce: "nothing" },
  ]);
  const notRead: unknown = expect.stringContaining("is not read");
  expect(problems.map(({ message }) => message)).toEqual([notRead, notRead]);
  const listed = () => lists.filter((each) => each === "httproutes").length;
  responses["httproutes"] = listing([second, third], "1000");
  await send("httproutes", event("DELETED", first));
  const after = await publishedTimes(3);
  expect([namesOf(after.resources.HTTPRoute), after.rejected.length, listed()]).toEqual([["b"], 1, 2]);
  // The next list is half a minute later.
  responses["httproutes"] = listing([third], "1002");
  await send("httproutes", event("DELETED", { ...second, metadata: { ...second.metadata, resourceVersion: "1001" } }));
  expect(namesOf((await publishedTimes(4)).resources.HTTPRoute)).toEqual([]);
  expect(listed()).toBe(2);
  clock.advance(30_000);
  const last = await publishedTimes(5);
  expect([namesOf(last.resources.HTTPRoute), last.incomplete.size]).toEqual([["c"], 0]);
  expect(listed()).toBe(3);
});

test("an object of a small namespace takes the room of the last one of the largest, which is read again later", async () => {
  const inCrowd = [route("a"), route("b"), route("c")];
  const metadata = { name: "small", namespace: "other", uid: "small", resourceVersion: "900" };
  const small = { ...route("small"), metadata };
  const { send, responses, clock, publishedTimes } = await sourcing(
    { httproutes: listing(inCrowd) },
    { maxAllBytes: 14_000 },
  );
  const before = await publishedTimes(1);
  expect(namesOf(before.resources.HTTPRoute)).toEqual(["a", "b"]);
  await send("httproutes", event("ADDED", small));
  const during = await publishedTimes(2);
  expect(namesOf(during.resources.HTTPRoute)).toEqual(["a", "small"]);
  expect(during.rejected.map(({ object: { metadata }, inForce }) => [metadata, inForce])).toMatchObject([
    [{ name: "b" }, "nothing"],
    [{ name: "c" }, "nothing"],
  ]);
  responses["httproutes"] = listing(inCrowd, "1000");
  await send("httproutes", event("DELETED", { ...small, metadata: { ...small.metadata, resourceVersion: "1000" } }));
  clock.advance(30_000);
  await waitFor(async () => expect(namesOf((await publishedTimes(4)).resources.HTTPRoute)).toEqual(["a", "b"]));
});

test("a policy that closes its namespace for those that are left out does so until another one does", async () => {
  const policy = (at: number) =>
    object("gatewayproxy.dev/v1alpha1", "ProxyPolicy", `p${at}`, {
      spec: {
        targetRefs: [{ group: gatewayGroup, kind: "HTTPRoute", name: "web" }],
        traffic: { rateLimit: { local: [{ requests: 1, unit: "Hours" }] } },
      },
    });
  const all = Array.from({ length: 100 }, (_, at) => policy(at));
  const { send, responses, publishedTimes } = await sourcing({ proxypolicies: listing(all) }, { maxKindBytes: 20_000 });
  const closing = async (times: number) => {
    const { ProxyPolicy } = (await publishedTimes(times)).resources;
    return ProxyPolicy.filter(({ spec }) => spec.targetRefs.length === 0).map(({ metadata }) => metadata.name);
  };
  const [first] = await closing(1);
  const [removed] = all.filter(({ metadata }) => metadata.name === first);
  if (removed === undefined) throw new Error("no policy closes the namespace");
  // The list that finds those that are left out takes long.
  let list: ApiCall | undefined;
  responses["proxypolicies"] = (call) => (list = call);
  await send("proxypolicies", event("DELETED", removed));
  expect(await closing(2)).toEqual([`${first}:removed`]);
  await waitFor(() => expect(list).toBeDefined());
  const remaining = all.filter((each) => each !== removed);
  list?.respond(200, { kind: "List", metadata: { resourceVersion: "1001" }, items: remaining });
  const [second, ...others] = await closing(3);
  expect([remaining.map(({ metadata }) => metadata.name).includes(second ?? ""), others]).toEqual([true, []]);
});

describe("changes", () => {
  test("that come together are published together", async () => {
    const { published, send, publishedTimes } = await sourcing();
    await publishedTimes(1);
    await send("services", event("ADDED", service("a")), event("ADDED", service("b")));
    await send("services", event("MODIFIED", service("a", 81)));
    const { resources } = await publishedTimes(2);
    expect(namesOf(resources.Service)).toEqual(["a", "b"]);
    expect(resources.Service[0]?.spec.ports[0]?.port).toBe(81);
    expect(published).toHaveLength(2);
  });

  test("of endpoints are published sooner, if nothing else has changed for 250 ms", async () => {
    const { clock, published, send, publishedTimes } = await sourcing();
    await publishedTimes(1);
    const add = async (collection: string, added: object): Promise<void> => {
      await send(collection, event("ADDED", added));
      await settle();
    };
    const isPublishedAfter = async (ms: number): Promise<void> => {
      const before = published.length;
      clock.advance(ms - 1);
      await settle();
      expect(published).toHaveLength(before);
      clock.advance(1);
      await waitFor(() => expect(published).toHaveLength(before + 1));
    };
    clock.advance(250);
    await add("endpointslices", endpointSlice("a"));
    await isPublishedAfter(5);
    await add("endpointslices", endpointSlice("b"));
    await isPublishedAfter(30);
    clock.advance(250);
    await add("services", service("a"));
    await add("endpointslices", endpointSlice("c"));
    await isPublishedAfter(30);
  });

  test("that never end are published after 250 ms all the same", async () => {
    const { clock, published, send, publishedTimes } = await sourcing();
    await publishedTimes(1);
    for (let elapsedMs = 0; elapsedMs < 300; elapsedMs += 40) {
      await send("services", event("ADDED", service(`s${elapsedMs}`)));
      await settle();
      clock.advance(40);
    }
    await waitFor(() => expect(published.length).toBeGreaterThanOrEqual(2));
  });

  test("cause no work while the last configuration is being applied, and then they are published together", async () => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    let isApplying = false;
    const applied = () => (isApplying ? promise : Promise.resolve());
    const { selections, send, quieten, publishedTimes } = await sourcing({}, { applied });
    await publishedTimes(1);
    isApplying = true;
    const before = selections.length;
    for (const name of ["a", "b", "c"]) {
      await send("services", event("ADDED", service(name)));
      await quieten();
    }
    expect(selections).toHaveLength(before);
    resolve(undefined);
    expect(namesOf((await publishedTimes(2)).resources.Service)).toEqual(["a", "b", "c"]);
    expect(selections.length - before).toBeLessThan(3);
  });

  test("of other resources publish nothing", async () => {
    const { published, send, quieten, publishedTimes } = await sourcing({ services: listing([service("a")]) });
    await publishedTimes(1);
    const again = { ...service("a"), status: { loadBalancer: {} } };
    await send("services", event("MODIFIED", again));
    await quieten();
    await quieten();
    expect(published).toHaveLength(1);
  });
});

describe("Secrets", () => {
  test("are requested by name, and no others", async () => {
    const { lists, watches, publishedTimes } = await sourcing({ backends: listing([llm("key")]) });
    await publishedTimes(1);
    expect(lists.filter((list) => list.startsWith("secrets"))).toEqual(["secrets/key"]);
    await waitFor(() => expect(watches.get("secrets/key")?.url.pathname).toBe("/api/v1/namespaces/default/secrets"));
  });

  test("are watched as long as a resource refers to them", async () => {
    const { send, published, quieten, publishedTimes } = await sourcing({
      backends: listing([llm("first")]),
      "secrets/first": listing([secret("first")]),
      "secrets/second": listing([secret("second")]),
    });
    await publishedTimes(1);
    await send("backends", event("MODIFIED", llm("second")));
    const { resources } = await publishedTimes(2);
    expect(namesOf(resources.Secret)).toEqual(["second"]);
    const before = published.length;
    await send("secrets/first", event("MODIFIED", secret("first")));
    await quieten();
    expect(published).toHaveLength(before);
  });

  test("that are created later are published then", async () => {
    const { send, publishedTimes } = await sourcing({ backends: listing([llm("key")]) });
    expect((await publishedTimes(1)).resources.Secret).toEqual([]);
    await send("secrets/key", event("ADDED", secret("key")));
    expect(namesOf((await publishedTimes(2)).resources.Secret)).toEqual(["key"]);
  });

  test("that may not be read at first, because the role is being written, are waited for", async () => {
    const { responses, published, publishedTimes } = await sourcing({
      backends: listing([llm("key")]),
      "secrets/key": (call) => {
        responses["secrets/key"] = listing([secret("key")]);
        call.respond(403, { message: "secrets is forbidden" });
      },
    });
    expect(namesOf((await publishedTimes(1)).resources.Secret)).toEqual(["key"]);
    expect(published).toHaveLength(1);
  });

  test("that may not be read are distinguished from those that do not exist", async () => {
    const { publishedTimes } = await sourcing({
      backends: listing([llm("key")]),
      "secrets/key": (call) => call.respond(403, { message: "secrets is forbidden" }),
    });
    const { resources, unreadable, problems } = await publishedTimes(1);
    expect(resources.Secret).toEqual([]);
    expect([...unreadable]).toEqual(["Secret default/key"]);
    expect(problems.map(({ message }) => message)).toEqual([
      "cannot read Secret default/key, which needs the verbs list and watch: secrets is forbidden",
    ]);
  });
});

describe("Secrets of a namespace that refers to many", () => {
  const inNamespace = (namespace: string, name: string, of: ReturnType<typeof llm>) => ({
    ...of,
    metadata: { ...of.metadata, namespace, name },
  });
  const many = Array.from({ length: maxWatches + 36 }, (_, index) =>
    inNamespace("many", `b${index}`, llm(`s${index}`)),
  );
  const isSecretsOf = (namespace: string) => (call: ApiCall) =>
    call.url.pathname === `/api/v1/namespaces/${namespace}/secrets`;

  test("are watched up to a bound, and the others read again from time to time", async () => {
    const { clock, lists, watches, publishedTimes } = await sourcing({ backends: listing(many) });
    await publishedTimes(1);
    const listed = () => lists.filter((each) => each.startsWith("secrets/")).length;
    await waitFor(() => expect(listed()).toBe(many.length));
    await waitFor(() => expect([...watches.values()].filter(isSecretsOf("many"))).toHaveLength(maxWatches));
    clock.advance(30_000);
    await waitFor(() => expect(listed()).toBe(many.length + 36));
    expect([...watches.values()].filter(isSecretsOf("many"))).toHaveLength(maxWatches);
  });

  test("are published when one that is not watched has changed", async () => {
    const last = `s${many.length - 1}`;
    const { clock, responses, publishedTimes } = await sourcing({ backends: listing(many) });
    expect((await publishedTimes(1)).resources.Secret).toEqual([]);
    responses[`secrets/${last}`] = listing([inNamespace("many", last, secret(last))]);
    clock.advance(30_000);
    expect(namesOf((await publishedTimes(2)).resources.Secret)).toEqual([last]);
  });

  test("take four requests at a time, and those of another namespace do not wait for them", async () => {
    const held: ApiCall[] = [];
    const silent = Object.fromEntries(
      many.map((_, index) => [`secrets/s${index}`, (call: ApiCall) => held.push(call)]),
    );
    const { lists, quieten } = await sourcing({
      backends: listing([...many, inNamespace("other", "b", llm("own"))]),
      ...silent,
    });
    await waitFor(async () => {
      await quieten();
      expect(lists).toContain("secrets/own");
    });
    expect(held).toHaveLength(4);
  });

  test("beyond the bound of watches do not delay changes", async () => {
    const { responses, send, publishedTimes } = await sourcing({ backends: listing(many.slice(1)) });
    await publishedTimes(1);
    responses["secrets/s0"] = () => undefined;
    await send("backends", event("ADDED", many[0] ?? {}));
    await send("services", event("ADDED", service("a")));
    expect(namesOf((await publishedTimes(2)).resources.Service)).toEqual(["a"]);
  });
});

describe("Secrets of a namespace that have no room together", () => {
  const maxLength = 100_000;
  const large = (name: string) => object("v1", "Secret", name, { data: { key: "a".repeat(0.6 * maxLength) } });
  const named = (secretName: string) => {
    const backend = llm(secretName);
    return { ...backend, metadata: { ...backend.metadata, name: `of-${secretName}` } };
  };

  test("are read again when there is room, and then not for 30 s, whatever changes", async () => {
    const held: ApiCall[] = [];
    const handlers = {
      backends: listing([named("first"), named("second")]),
      "secrets/first": listing([large("first")]),
      "secrets/second": (call: ApiCall) => held.push(call),
    };
    const { clock, lists, responses, send, quieten, publishedTimes } = await sourcing(handlers, {
      maxNamedLength: maxLength,
    });
    const listed = (name: string) => lists.filter((each) => each === `secrets/${name}`).length;
    const quietUntil = (check: () => void) =>
      waitFor(
        async () => {
          await quieten();
          check();
        },
        { timeout: 20_000 },
      );
    expect(namesOf((await publishedTimes(1)).resources.Secret)).toEqual(["first"]);
    responses["secrets/second"] = listing([large("second")]);
    for (const call of held) listing([large("second")])(call);
    expect((await publishedTimes(2)).crowded).toEqual(new Set(["default"]));
    let beforeMs = clock.monotonicMs();
    await send("secrets/first", event("MODIFIED", secret("first")));
    await quietUntil(() => {
      if (listed("second") < 2) beforeMs = clock.monotonicMs();
      expect(listed("second")).toBe(2);
    });
    // The first has no room now, until the second leaves it again.
    await send("secrets/first", event("MODIFIED", large("first")));
    await quieten();
    await send("secrets/second", event("MODIFIED", secret("second")));
    while (clock.monotonicMs() + 2_500 < beforeMs + 30_000) {
      await send("services", event("ADDED", service(`s${clock.monotonicMs()}`)));
      await quieten(2_500);
    }
    expect(listed("first")).toBe(1);
    await quietUntil(() => expect(listed("first")).toBe(2));
  });
});

describe("a Secret that the source waits for", () => {
  const grant = object(`${gatewayGroup}/v1`, "ReferenceGrant", "grant", {
    spec: {
      from: [{ group: gatewayGroup, kind: "HTTPRoute", namespace: "other" }],
      to: [{ group: "", kind: "Service" }],
    },
  });
  const forbidden: Handler = (call) => call.respond(403, { message: "secrets is forbidden" });

  test("delays other changes, but not a withdrawn grant", async () => {
    const { lists, quieten, send, published, publishedTimes } = await sourcing({
      referencegrants: listing([grant]),
      "secrets/late": forbidden,
    });
    expect(namesOf((await publishedTimes(1)).resources.ReferenceGrant)).toEqual(["grant"]);
    await send("backends", event("ADDED", llm("late")));
    await waitFor(async () => {
      await quieten(50);
      expect(lists).toContain("secrets/late");
    });
    await send("services", event("ADDED", service("a")));
    await send("referencegrants", event("DELETED", grant));
    const { resources } = await publishedTimes(2);
    expect(resources.ReferenceGrant).toEqual([]);
    expect(namesOf(resources.Service)).toEqual([]);
    const last = (await publishedTimes(published.length + 1)).resources;
    expect(namesOf(last.Service)).toEqual(["a"]);
  });

  test("delays nothing for longer than 3 s, though new ones are referred to all the time", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `n${index}`);
    const { send, clock, lists, published, quieten, publishedTimes } = await sourcing(
      Object.fromEntries([...names, "late", "later", "latest"].map((name) => [`secrets/${name}`, forbidden])),
    );
    await publishedTimes(1);
    await send("services", event("ADDED", service("a")));
    for (const name of names) {
      await send("backends", event("MODIFIED", llm(name)));
      await settle();
      clock.advance(250);
      await settle();
      clock.advance(750);
      await settle();
    }
    await waitFor(() => expect(published.length).toBeGreaterThanOrEqual(2));
    expect(namesOf(published.at(-1)?.resources.Service ?? [])).toEqual(["a"]);
    // The namespace has used up its time, and changes do not wait for its next references.
    for (const name of ["late", "later", "latest"]) {
      await send("backends", event("MODIFIED", llm(name)));
      await waitFor(async () => {
        await quieten(50);
        expect(lists).toContain(`secrets/${name}`);
      });
      expect(published.at(-1)?.resources.Backend[0]?.spec.ai?.auth?.secretRef?.name).toBe(name);
    }
  });
});

test("a rejected version leaves the previous one in force, and is reported", async () => {
  const { send, publishedTimes } = await sourcing({ backends: listing([llm("key", "good")]) });
  await publishedTimes(1);
  await send("backends", event("MODIFIED", llm("key", "x".repeat(300))));
  const { resources, kept, rejected } = await publishedTimes(2);
  expect(resources.Backend[0]?.spec.ai?.provider?.openai?.model).toBe("good");
  expect(kept).toEqual(["Backend default/llm"]);
  expect(rejected).toMatchObject([{ inForce: "lastValidVersion", object: { kind: "Backend" } }]);
});

test("a route of which one rule is rejected is in force for the others", async () => {
  const rules = [{ matches: [{ path: { type: "RegularExpression", value: "/(?=x)" } }] }, {}];
  const route = object(`${gatewayGroup}/v1`, "HTTPRoute", "chat", { spec: { rules } });
  const { publishedTimes } = await sourcing({ httproutes: listing([route]) });
  const { resources, kept, rejected } = await publishedTimes(1);
  expect(resources.HTTPRoute[0]?.spec.rules).toHaveLength(2);
  expect(kept).toEqual([]);
  expect(rejected).toMatchObject([{ inForce: "validRules" }]);
});
