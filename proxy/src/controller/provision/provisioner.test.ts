import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test, vi } from "vitest";
import { ClusterConnection } from "../../kube/connection.ts";
import type { KubeObject } from "../../kube/object.ts";
import { openScriptedApiServer } from "../../kube/testing/scripted-api-server.ts";
import { gatewayNameLabel } from "../../translate/gateway-label.ts";
import { gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import { ownedObject } from "./owned-object.ts";
import { Provisioner } from "./provisioner.ts";

const quiet = vi.fn();
const log = { error: quiet, warn: quiet, info: quiet, debug: quiet, trace: quiet, isLevelEnabled: () => false };

/** A provisioner over a cluster without objects, whose API takes what `refuses` does not name. */
async function provisioning(
  refuses: (path: string) => boolean = () => false,
  standing?: KubeObject,
  existing: readonly KubeObject[] = [],
) {
  const server = await openScriptedApiServer();
  const connection = new ClusterConnection(server.cluster);
  const applied: string[] = [];
  const deleted: string[] = [];
  const onChange = vi.fn();
  const provisioner = new Provisioner({
    ...{ connection, clock: new FakeClock(), random: () => 1, log, onChange, isLeader: () => true },
    api: {
      get: (path: string) => Promise.resolve(refuses(path) ? standing : undefined),
      delete: (path: string) => {
        deleted.push(path);
        return Promise.resolve();
      },
      apply: (path: string, body: KubeObject) => {
        applied.push(path);
        return refuses(path) ? Promise.reject(new Error("refused")) : Promise.resolve(body);
      },
    },
  });
  onTestFinished(() => {
    provisioner.close();
    connection.close();
  });
  const itemsOf = (path: string) => (path.endsWith("/serviceaccounts") ? existing : []);
  const serve = async (): Promise<void> => {
    for (;;) {
      const call = await server.next();
      if (call.isWatch) call.open();
      else call.answer(200, { kind: "List", metadata: { resourceVersion: "1" }, items: itemsOf(call.url.pathname) });
    }
  };
  void serve();
  await vi.waitFor(() => expect(provisioner.isSynced).toBe(true));
  onChange.mockClear();
  return { provisioner, applied, deleted, onChange };
}

function accounts(namespace: string, count: number) {
  return Array.from({ length: count }, (_, index) => {
    const labels = { [gatewayNamespaceLabel]: namespace, [gatewayNameLabel]: `g${index}` };
    return ownedObject({ kind: "ServiceAccount", namespace, name: `a${index}`, metadata: { labels }, fields: {} });
  });
}

const provision = (...wanted: ReturnType<typeof accounts>) => ({
  ...{ wanted, present: new Set<string>(), frozen: new Map<string, never>() },
});

test("makes a part of a namespace with thousands of objects in each pass, and all of another", async () => {
  const { provisioner, applied, onChange } = await provisioning();
  await provisioner.reconcile(provision(...accounts("many", 2_000), ...accounts("few", 5)));
  expect(applied.filter((path) => path.includes("/few/"))).toHaveLength(5);
  expect(applied.filter((path) => path.includes("/many/"))).toHaveLength(48);
  expect(onChange).toHaveBeenCalled();
});

test("deletes a part of what a namespace has too much of in each pass, and all of another", async () => {
  const leftOver = [...accounts("many", 200), ...accounts("few", 5)].map(({ body, namespace, name }) => ({
    ...body,
    // A label that somebody has written does not count for another namespace.
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

test.each([
  ["is refused", undefined],
  ["is there already, and somebody else's", { metadata: { labels: {} } }],
])("makes what can be made of a namespace in which much %s, and does not try again at once", async (_, standing) => {
  const { provisioner, applied, onChange } = await provisioning((path) => !path.endsWith("/a99"), standing);
  const wanted = provision(...accounts("many", 100));
  for (let pass = 1; pass <= 3; pass++) await provisioner.reconcile(wanted);
  expect(applied.some((path) => path.endsWith("/a99"))).toBe(true);
  onChange.mockClear();
  const faults = await provisioner.reconcile(wanted);
  expect(onChange).not.toHaveBeenCalled();
  // Objects that were not tried in this pass are reported as well.
  expect(faults.gateways.size).toBe(99);
});

test("rights that the owner of another namespace prevents are no fault of the Gateway", async () => {
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
  const standing = { metadata: { labels: {} } };
  const ofTenant = await provisioning((path) => path.endsWith("roles/web-in-tenant"), standing);
  expect(await ofTenant.provisioner.reconcile(provision(...rights))).toEqual({
    gateways: new Map(),
    withheld: new Map([
      ["infra/web", new Map([["Secret tenant/key", "Role tenant/web-in-tenant exists and is not ours"]])],
    ]),
  });
  const own = await provisioning((path) => path.endsWith("rolebindings/web-in-infra"), standing);
  expect(await own.provisioner.reconcile(provision(...rights))).toEqual({
    gateways: new Map([["infra/web", "RoleBinding infra/web-in-infra exists and is not ours"]]),
    withheld: new Map(),
  });
});
