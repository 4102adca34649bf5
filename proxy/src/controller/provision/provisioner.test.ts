import { gatewayNameLabel } from "../../api/names.ts";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ClusterConnection } from "../../kube/connection.ts";
import type { KubeObject } from "../../kube/object.ts";
import { maxPassMs } from "../../kube/write-order.ts";
import { openScriptedApiServer } from "../../kube/testing/scripted-api-server.ts";
import { gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import { ownedObject } from "./owned-object.ts";
import { Provisioner } from "./provisioner.ts";

const quiet = vi.fn();
const log = { error: quiet, warn: quiet, info: quiet, debug: quiet, trace: quiet, isLevelEnabled: () => false };

/** The most requests at a time that `api` was in, as each request takes a turn of the event loop. */
function countConcurrency() {
  let now = 0;
  const counted = { most: 0, during };
  async function during(): Promise<void> {
    counted.most = Math.max(counted.most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
  }
  return counted;
}

/** A provisioner over a cluster without objects, whose API takes what `rejects` does not name. */
async function provisioning(
  rejects: (path: string) => boolean = () => false,
  current?: KubeObject,
  existing: readonly KubeObject[] = [],
  unlabelled?: KubeObject,
  forbidden?: string,
  deletionMs = 0,
  heapBytes?: number,
) {
  const clock = new FakeClock();
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  const applied: string[] = [];
  const bodies = new Map<string, KubeObject>();
  const concurrency = countConcurrency();
  const deleted: string[] = [];
  const onChange = vi.fn();
  const provisioner = new Provisioner({
    ...{ connection, clock, random: () => 1, log, onChange, isLeader: () => true },
    ...(heapBytes !== undefined && { heapBytes }),
    api: {
      get: (path: string) => Promise.resolve(unlabelled ?? (rejects(path) ? current : undefined)),
      delete: (path: string) => {
        deleted.push(path);
        clock.advance(deletionMs);
        return Promise.resolve();
      },
      apply: async (path: string, body: KubeObject) => {
        applied.push(path);
        await concurrency.during();
        bodies.set(path, body);
        const uid = `uid ${applied.length}`;
        const response = { ...body, metadata: { ...(body["metadata"] as object), uid } };
        return rejects(path) ? Promise.reject(new Error("rejected")) : Promise.resolve(response);
      },
    },
  });
  onTestFinished(() => {
    provisioner.close();
    connection.close();
  });
  const itemsOf = (path: string) =>
    existing.filter(({ kind = "ServiceAccount" }) => path.endsWith(`/${String(kind).toLowerCase()}s`));
  const serve = async (): Promise<void> => {
    for (;;) {
      const call = await server.next();
      if (call.url.pathname.endsWith(forbidden ?? "/none")) call.respond(403, { kind: "Status", message: "forbidden" });
      else if (call.isWatch) call.open();
      else call.respond(200, { kind: "List", metadata: { resourceVersion: "1" }, items: itemsOf(call.url.pathname) });
    }
  };
  void serve();
  await waitFor(() => expect(provisioner.isListed).toBe(true), { timeout: 20_000 });
  onChange.mockClear();
  return { provisioner, applied, bodies, concurrency, deleted, onChange };
}

function accounts(namespace: string, count: number) {
  return Array.from({ length: count }, (_, index) => {
    const labels = { [gatewayNamespaceLabel]: namespace, [gatewayNameLabel]: `g${index}` };
    return ownedObject({ kind: "ServiceAccount", namespace, name: `a${index}`, metadata: { labels }, fields: {} });
  });
}

const provision = (...desired: ReturnType<typeof accounts>) => ({
  ...{ desired, present: new Set<string>(), suspended: new Map<string, never>(), terminating: new Set<string>() },
});

test("creates a part of a namespace with thousands of objects in each pass, and all of another", async () => {
  const { provisioner, applied, onChange } = await provisioning();
  await provisioner.reconcile(provision(...accounts("many", 2_000), ...accounts("few", 5)));
  expect(applied.filter((path) => path.includes("/few/"))).toHaveLength(5);
  expect(applied.filter((path) => path.includes("/many/"))).toHaveLength(48);
  expect(onChange).toHaveBeenCalled();
});

test("creates the objects of several Gateways of a namespace at a time", async () => {
  const { provisioner, concurrency } = await provisioning();
  await provisioner.reconcile(provision(...accounts("infra", 40)));
  expect(concurrency.most).toBe(8);
});

test("creates the objects of one Gateway one after another", async () => {
  const { provisioner, concurrency } = await provisioning();
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web" };
  const shared = { namespace: "infra", name: "web", metadata: { labels }, fields: {} };
  const kinds = ["ServiceAccount", "Service", "Deployment"] as const;
  await provisioner.reconcile(provision(...kinds.map((kind) => ownedObject({ kind, ...shared }))));
  expect(concurrency.most).toBe(1);
});

test("writes an object once that has no room among thousands with the controller's label", async () => {
  const labels = { [managedByLabel]: managedBy };
  const existing = accounts("crowd", 100).map(({ body }) => ({
    ...body,
    metadata: { ...(body["metadata"] as object), labels, ownerReferences: [{ uid: "u" }] },
  }));
  const [own] = accounts("crowd", 1).map((object) => ({ ...object, name: "own" }));
  if (own === undefined) throw new Error("no object");
  const current = { metadata: { namespace: "crowd", name: "own", labels } };
  const { provisioner, applied, deleted } = await provisioning(
    undefined,
    undefined,
    existing,
    current,
    "/none",
    0,
    80_000,
  );
  expect((await provisioner.reconcile(provision(own))).gateways.size).toBe(0);
  const { gateways } = await provisioner.reconcile(provision(own));
  expect([...gateways.values()]).toEqual([expect.stringContaining("is not watched: crowd has more objects")]);
  expect([applied.length, deleted.length]).toEqual([1, 0]);
});

test("leaves everything as it is while a kind cannot be listed, and says so", async () => {
  const { provisioner, applied } = await provisioning(undefined, undefined, [], undefined, "/deployments");
  expect(await provisioner.reconcile(provision(...accounts("infra", 1)))).toEqual({
    ...{ gateways: new Map(), withheld: new Map() },
  });
  expect(applied).toEqual([]);
  expect(provisioner.listError).toBe(
    "the controller cannot read Deployment, which needs the verbs list and watch: forbidden",
  );
});

test("makes no request for objects of a namespace that is being deleted", async () => {
  const { provisioner, applied } = await provisioning();
  const desired = provision(...accounts("ending", 200), ...accounts("other", 1));
  expect((await provisioner.reconcile({ ...desired, terminating: new Set(["ending"]) })).gateways.size).toBe(0);
  expect(applied).toEqual(["/api/v1/namespaces/other/serviceaccounts/a0"]);
});

test("deletes a part of the surplus objects of a namespace in each pass, and all of another", async () => {
  const leftOver = [...accounts("many", 200), ...accounts("few", 5)].map(({ body, namespace, name }) => ({
    ...body,
    // A label from another writer does not count for another namespace.
    metadata: {
      ...{ namespace, name, uid: `${namespace}/${name}` },
      labels: { [managedByLabel]: managedBy, [gatewayNamespaceLabel]: "few", [gatewayNameLabel]: "gone" },
    },
  }));
  const { provisioner, deleted, onChange } = await provisioning(undefined, undefined, leftOver);
  await provisioner.reconcile(provision());
  expect(deleted.filter((path) => path.includes("/few/"))).toHaveLength(5);
  expect(deleted.filter((path) => path.includes("/many/"))).toHaveLength(48);
  expect(onChange).toHaveBeenCalled();
});

/** Roles of hundreds of Gateways of `infra` in a namespace that permits no reference any more, or only one. */
const rolesFor = (names: readonly string[]) =>
  Array.from({ length: 300 }, (_, index) => {
    const labels = { [managedByLabel]: managedBy, [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: `g${index}` };
    const rules = [{ apiGroups: [""], resources: ["secrets"], resourceNames: names, verbs: ["list", "watch"] }];
    const metadata = { labels, uid: `uid ${index}` };
    return ownedObject({ kind: "Role", namespace: "other", name: `r${index}`, metadata, fields: { rules } });
  });

test("withdraws rights of all Gateways of a namespace in one pass, while it has time", async () => {
  const bodies = rolesFor(["first", "second"]).map(({ body }) => body);
  const present = new Set(bodies.map((_, index) => `infra/g${index}`));
  const { provisioner, deleted, applied } = await provisioning(undefined, undefined, bodies);
  await provisioner.reconcile({ ...provision(...rolesFor(["first"])), present });
  expect(applied).toHaveLength(300);
  await provisioner.reconcile({ ...provision(), present });
  expect(deleted).toHaveLength(300);
});

test("withdraws rights for the time of a pass only, and in each namespace in some pass", async () => {
  const namespaces = Array.from({ length: 240 }, (_, index) => `n${index}`);
  // The watches report no change, so that all Roles are due in each pass.
  const bodies = rolesFor(["first"]).flatMap(({ body, name }) =>
    namespaces.map((namespace) => ({ ...body, metadata: { ...(body["metadata"] as object), namespace, name } })),
  );
  const inPass = 100;
  const deletionMs = maxPassMs / inPass;
  const { provisioner, deleted } = await provisioning(undefined, undefined, bodies, undefined, undefined, deletionMs);
  for (let pass = 1; pass <= 3; pass++) {
    await provisioner.reconcile({ ...provision(), present: new Set(["infra/g0"]) });
    expect(deleted).toHaveLength(pass * inPass);
  }
  expect(new Set(deleted.map((path) => path.split("/")[5])).size).toBe(240);
});

test("withdraws rights again that it could not withdraw, however much else of their namespace changes", async () => {
  const before = rolesFor(["first", "second"]);
  const present = new Set(before.map((_, index) => `infra/g${index}`));
  const failing = new Set(Array.from({ length: 100 }, (_, index) => `/r${index}`));
  const { provisioner, applied } = await provisioning(
    (path) => failing.has(path.slice(path.lastIndexOf("/"))),
    undefined,
    before.map(({ body }) => body),
  );
  const [some, all] = [rolesFor(["first"]).slice(0, 100), rolesFor(["first"])];
  await provisioner.reconcile({ ...provision(...some), present });
  expect(applied).toHaveLength(100);
  // The watches report no change, so that the other Roles are due in each pass.
  const again = new Set<string>();
  for (let pass = 1; pass <= 3; pass++) {
    applied.length = 0;
    await provisioner.reconcile({ ...provision(...all), present });
    for (const path of applied) again.add(path);
  }
  expect(again.size).toBe(300);
});

test.each([
  ["is rejected", undefined],
  ["exists already and belongs to another writer", { metadata: { labels: {} } }],
])("creates what it can of a namespace in which much %s, and does not try again at once", async (_, current) => {
  const { provisioner, applied, onChange } = await provisioning((path) => !path.endsWith("/a99"), current);
  const desired = provision(...accounts("many", 100));
  for (let pass = 1; pass <= 3; pass++) await provisioner.reconcile(desired);
  expect(applied.some((path) => path.endsWith("/a99"))).toBe(true);
  onChange.mockClear();
  const faults = await provisioner.reconcile(desired);
  expect(onChange).not.toHaveBeenCalled();
  // Objects that were not tried in this pass are reported as well.
  expect(faults.gateways.size).toBe(99);
});

test("rights that the owner of another namespace prevents are not errors of the Gateway", async () => {
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web" };
  const rights = ["infra", "tenant"].flatMap((namespace) => {
    const name = `web-in-${namespace}`;
    const rules = [{ resources: ["secrets"], resourceNames: ["key"] }];
    const shared = { namespace, name, metadata: { labels } };
    return [
      ownedObject({ kind: "Role", ...shared, fields: { rules } }),
      ownedObject({ kind: "RoleBinding", ...shared, fields: {} }),
    ];
  });
  const current = { metadata: { labels: {} } };
  const ofTenant = await provisioning((path) => path.endsWith("roles/web-in-tenant"), current);
  expect(await ofTenant.provisioner.reconcile(provision(...rights))).toEqual({
    gateways: new Map(),
    withheld: new Map([
      [
        "infra/web",
        new Map([
          [
            "Secret tenant/key",
            "Role tenant/web-in-tenant already exists and is not managed by gatewayproxy.dev (label app.kubernetes.io/managed-by); delete it, or set the label to gatewayproxy.dev so that the controller takes it over",
          ],
        ]),
      ],
    ]),
  });
  const own = await provisioning((path) => path.endsWith("rolebindings/web-in-infra"), current);
  expect(await own.provisioner.reconcile(provision(...rights))).toEqual({
    gateways: new Map([
      [
        "infra/web",
        "RoleBinding infra/web-in-infra already exists and is not managed by gatewayproxy.dev (label app.kubernetes.io/managed-by); delete it, or set the label to gatewayproxy.dev so that the controller takes it over",
      ],
    ]),
    withheld: new Map(),
  });
});

describe("a Deployment", () => {
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web", [managedByLabel]: managedBy };
  const shared = { namespace: "infra", name: "web", metadata: { labels } };
  const account = ownedObject({ kind: "ServiceAccount", ...shared, fields: {} });
  const template = { spec: { serviceAccountName: "web" } };
  const deployment = ownedObject({ kind: "Deployment", ...shared, fields: { spec: { replicas: 1, template } } });
  const path = "/apis/apps/v1/namespaces/infra/deployments/web";
  const accountOf = (uid: string) => ({ ...account.body, metadata: { ...(account.body["metadata"] as object), uid } });
  const annotated = (uid: string) => ({
    spec: { replicas: 1, template: { metadata: { annotations: { "gatewayproxy.dev/service-account-uid": uid } } } },
  });

  test("has the uid of its ServiceAccount from the start, so that it is not rolled out a second time", async () => {
    const { provisioner, bodies } = await provisioning();
    await provisioner.reconcile(provision(account, deployment));
    expect(bodies.get(path)).toMatchObject(annotated("uid 1"));
  });

  test("is rolled out when its ServiceAccount was deleted and created again", async () => {
    const existing = [accountOf("second"), { ...deployment.body, ...annotated("first") }];
    const { provisioner, bodies } = await provisioning(undefined, undefined, existing);
    await provisioner.reconcile(provision(account, deployment));
    // This process has applied the account too, and the response has its uid.
    expect(bodies.get(path)).toMatchObject(annotated("uid 1"));
    await provisioner.reconcile(provision(deployment));
    expect(bodies.get(path)).toMatchObject(annotated("second"));
  });
});

describe("a StatefulSet in place of a Deployment", () => {
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web", [managedByLabel]: managedBy };
  const shared = { namespace: "infra", name: "web", metadata: { labels } };
  const fields = (storage: string, replicas?: number) => ({
    spec: {
      ...(replicas !== undefined && { replicas }),
      volumeClaimTemplates: [{ metadata: { name: "state" }, spec: { resources: { requests: { storage } } } }],
    },
  });
  const setWith = (storage: string, replicas?: number) => ({
    ...ownedObject({ kind: "StatefulSet", ...shared, fields: fields(storage, replicas) }),
    replaces: { kind: "Deployment", name: "web" } as const,
  });
  const current = (kind: "StatefulSet" | "Deployment", spec: KubeObject, availableReplicas: number) => {
    const metadata = { ...shared.metadata, namespace: "infra", name: "web", uid: kind, generation: 2 };
    return { apiVersion: "apps/v1", kind, metadata, spec, status: { observedGeneration: 2, availableReplicas } };
  };
  const present = { present: new Set(["infra/web"]) };
  const deployment = current("Deployment", { replicas: 7 }, 7);
  const [ofSet, ofDeployment] = ["statefulsets", "deployments"].map(
    (plural) => `/apis/apps/v1/namespaces/infra/${plural}/web`,
  );

  test.each([
    ["does not exist", [deployment], []],
    ["serves with some of its pods", [deployment, current("StatefulSet", { replicas: 2 }, 1)], []],
    [
      "has a status of an earlier version",
      [
        deployment,
        {
          ...current("StatefulSet", { replicas: 2 }, 2),
          status: { observedGeneration: 1, availableReplicas: 2 },
        },
      ],
      [],
    ],
    ["serves with all of its pods", [deployment, current("StatefulSet", { replicas: 2 }, 2)], [ofDeployment]],
  ])("leaves the Deployment as it is until it is complete: it %s", async (_, existing, expected) => {
    const { provisioner, deleted } = await provisioning(undefined, undefined, existing);
    await provisioner.reconcile({ ...provision(setWith("1Gi", 2)), ...present });
    expect(deleted).toEqual(expected);
  });

  test("starts with the number of pods of the Deployment if an autoscaler sets the number", async () => {
    const { provisioner, bodies } = await provisioning(undefined, undefined, [deployment]);
    await provisioner.reconcile({ ...provision(setWith("1Gi")), ...present });
    expect(bodies.get(String(ofSet))).toMatchObject({ spec: { replicas: 7 } });
  });

  test("is applied with the volumes that it has, since the API server rejects others", async () => {
    const existing = [current("StatefulSet", fields("1Gi", 1).spec, 1)];
    const { provisioner, bodies } = await provisioning(undefined, undefined, existing);
    const { gateways } = await provisioner.reconcile({ ...provision(setWith("2Gi", 3)), ...present });
    expect(gateways).toEqual(new Map());
    expect(bodies.get(String(ofSet))).toMatchObject(fields("1Gi", 3));
  });
});

describe("objects that are as they should be", () => {
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web", [managedByLabel]: managedBy };
  const accountWith = (more: Readonly<Record<string, string>>, fields: KubeObject = {}) =>
    ownedObject({
      ...{ kind: "ServiceAccount", namespace: "infra", name: "web", fields },
      metadata: { labels: { ...labels, ...more } },
    });
  const account = accountWith({ team: "a" });

  /** The objects as a previous leader has applied them. */
  async function appliedBefore(...desired: ReturnType<typeof accounts>): Promise<readonly KubeObject[]> {
    const { provisioner, bodies } = await provisioning();
    await provisioner.reconcile(provision(...desired));
    return [...bodies.values()];
  }

  test("are not applied again by a new leader", async () => {
    const existing = await appliedBefore(...accounts("infra", 9));
    const { provisioner, applied } = await provisioning(undefined, undefined, existing);
    await provisioner.reconcile(provision(...accounts("infra", 9)));
    expect(applied).toEqual([]);
  });

  test("are not applied again if they have many long names, and are if one of these is another", async () => {
    const roleFor = (last: string) => {
      const resourceNames = [...Array.from({ length: 4_095 }, (_, index) => `${index}`.padEnd(250, "x")), last];
      const rules = [{ apiGroups: [""], resources: ["secrets"], resourceNames, verbs: ["list", "watch"] }];
      return ownedObject({ kind: "Role", namespace: "infra", name: "web", metadata: { labels }, fields: { rules } });
    };
    const [existing = {}] = await appliedBefore(roleFor("a"));
    const { provisioner, applied } = await provisioning(undefined, undefined, [existing]);
    for (let pass = 0; pass < 2; pass++) await provisioner.reconcile(provision(roleFor("a")));
    expect(applied).toEqual([]);
    await provisioner.reconcile(provision(roleFor("b")));
    expect(applied).toHaveLength(1);
  });

  test("cause no error of a Gateway if the controller may not change them any more", async () => {
    const existing = await appliedBefore(account);
    const { provisioner } = await provisioning(() => true, undefined, existing);
    expect((await provisioner.reconcile(provision(account))).gateways).toEqual(new Map());
  });

  test.each([
    ["has another content", accountWith({ team: "b" })],
    ["lacks a field that was applied before", accountWith({})],
  ])("are applied by a new leader whose version of them %s", async (_, desired) => {
    const existing = await appliedBefore(account);
    const { provisioner, applied } = await provisioning(undefined, undefined, existing);
    await provisioner.reconcile(provision(desired));
    expect(applied).toHaveLength(1);
  });

  test("are applied by a new leader if another writer has changed a field meanwhile", async () => {
    const desired = accountWith({}, { secrets: [{ name: "a" }] });
    const [existing = {}] = await appliedBefore(desired);
    const changed = { ...existing, secrets: [{ name: "b" }] };
    const { provisioner, applied } = await provisioning(undefined, undefined, [changed]);
    await provisioner.reconcile(provision(desired));
    expect(applied).toHaveLength(1);
  });
});

describe("an object from which the label of the controller was removed", () => {
  const labels = { [gatewayNamespaceLabel]: "infra", [gatewayNameLabel]: "web", [managedByLabel]: managedBy };
  const ownerReferences = [{ kind: "Gateway", name: "web", uid: "gateway uid", controller: true }];
  const service = ownedObject({
    ...{ kind: "Service", namespace: "infra", name: "web", fields: {} },
    metadata: { labels, ownerReferences },
  });

  test.each<[string, KubeObject]>([
    ["its owner reference names the Gateway", { ownerReferences }],
    ["its fields were applied", { managedFields: [{ manager: "gatewayproxy.dev/controller", operation: "Apply" }] }],
  ])("is repaired if %s, a few times", async (_, metadata) => {
    const { provisioner, applied } = await provisioning(undefined, undefined, [], {
      metadata: { labels: {}, ...metadata },
    });
    const errors = [];
    for (let pass = 0; pass < 9; pass++) {
      errors.push(...(await provisioner.reconcile(provision(service))).gateways.values());
    }
    expect(applied.length).toBeGreaterThan(1);
    expect(errors.at(-1)).toContain("is changed by another writer each time");
  });

  test.each<[string, KubeObject]>([
    ["another Gateway owns it", { ownerReferences: [{ ...ownerReferences[0], uid: "another uid" }] }],
    ["another writer has applied it", { managedFields: [{ manager: "helm", operation: "Apply" }] }],
  ])("is left alone if %s", async (_, metadata) => {
    const { provisioner, applied } = await provisioning(undefined, undefined, [], {
      metadata: { labels: {}, ...metadata },
    });
    const { gateways } = await provisioner.reconcile(provision(service));
    expect([applied, gateways.get("infra/web")]).toEqual([[], expect.stringContaining("delete it, or set the label")]);
  });
});
