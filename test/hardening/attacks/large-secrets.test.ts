/**
 * The objects of one namespace refer to Secrets of a megabyte, and select the same Secrets hundreds of times. The
 * controller keeps a bounded part of them, and another namespace is not affected.
 */
import { expect, test } from "vitest";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import type { ObjectApiServer } from "../../support/object-api-server.ts";
import { expectUnaffected, object, putAll, startBystander } from "../support/bystander.ts";
import { times } from "../support/tenant-objects.ts";
import { gatewayApi, proxyApi } from "../../support/api-versions.ts";

/** Of the texts in base64 that stay, and the values that are read of them. */
const maxGrowthBytes = 160 * 1024 * 1024;
const maxHeldMs = 100;

const secrets = "/api/v1/secrets";
const gateways = `/apis/${gatewayApi}/gateways`;
const policies = `/apis/${proxyApi}/proxypolicies`;

function secret(index: number, length: number, labels: object = {}): KubeObject {
  const data = { apiKey: Buffer.alloc((length * 3) / 4, "x").toString("base64") };
  return object("v1", "Secret", "crowd", `s${index}`, { data }, { labels });
}

/** As many as an object of 1.5 MiB has place for. */
const manyKeys = Object.fromEntries(times(120_000, (at) => [at.toString(36), ""]));

/** A Gateway that refers to 200 Secrets. */
function referringGateway(index: number): KubeObject {
  const listeners = times(50, (at) => ({
    ...{ name: `l${at}`, port: 443, hostname: `h${at}.test`, protocol: "HTTPS" },
    tls: { certificateRefs: times(4, (ref) => ({ name: `s${index * 200 + at * 4 + ref}` })) },
  }));
  return object(gatewayApi, "Gateway", "crowd", `g${index}`, {
    spec: { gatewayClassName: "gateway-proxy", listeners },
  });
}

function selectingPolicy(index: number): KubeObject {
  return object(proxyApi, "ProxyPolicy", "crowd", `p${index}`, {
    spec: {
      targetRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", name: "nowhere" }],
      traffic: { authentication: { apiKeys: { secretSelector: { matchLabels: { [`k${index}`]: "v" } } } } },
    },
  });
}

/** Resolves when the status of an object says what has been read for it. */
async function read(api: ObjectApiServer, collection: string, name: string, saying: RegExp): Promise<void> {
  const status = () => JSON.stringify(api.get(collection, "crowd", name)?.["status"]);
  await expect.poll(status, { timeout: 120_000, interval: 100 }).toMatch(saying);
}

test("400 Secrets of a megabyte to which two Gateways refer", async () => {
  const bystander = await startBystander();
  const { controller } = bystander;
  await controller.longestHeldMs();
  await expectUnaffected(bystander, maxGrowthBytes, async (api) => {
    await putAll(api, secrets, 400, (index) => secret(index, 1_000_000));
    await putAll(api, gateways, 2, referringGateway);
    await read(api, gateways, "g0", /s199 (?:is of type|does not exist, or is not read)/);
    await read(api, gateways, "g1", /s399 (?:is of type|does not exist, or is not read)/);
  });
  expect(await controller.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 500_000);

test.each([
  [
    "the length of their types",
    (index: number) => ({ ...secret(index, 10), type: `t${index}`.padEnd(1_000_000, "x") }),
  ],
  ["the number of their keys", (index: number) => ({ ...secret(index, 10), data: manyKeys })],
])(
  "200 Secrets of a megabyte by %s, to which a Gateway refers",
  async (_, make) => {
    const bystander = await startBystander();
    const { controller } = bystander;
    await controller.longestHeldMs();
    await expectUnaffected(bystander, maxGrowthBytes, async (api) => {
      await putAll(api, secrets, 200, make);
      await putAll(api, gateways, 1, referringGateway);
      await read(api, gateways, "g0", /s196 (?:is of type|does not exist, or is not read)/);
    });
    expect(await controller.longestHeldMs()).toBeLessThan(maxHeldMs);
  },
  500_000,
);

test("100 Secrets that each of 300 policies selects", async () => {
  const bystander = await startBystander();
  const { controller } = bystander;
  const labels = Object.fromEntries(times(300, (at) => [`k${at}`, "v"]));
  await controller.longestHeldMs();
  await expectUnaffected(bystander, maxGrowthBytes, async (api) => {
    await putAll(api, secrets, 100, (index) => secret(index, 20_000, labels));
    await putAll(api, policies, 300, selectingPolicy);
    // Only the selection of one policy has it.
    await putAll(api, secrets, 300, (index) => secret(1_000 + index, 10, { [`k${index}`]: "v" }));
    await Promise.all(
      times(300, (at) => read(api, policies, `p${at}`, new RegExp(`"s${1_000 + at}"|than are read|not read`))),
    );
  });
  expect(await controller.longestHeldMs()).toBeLessThan(maxHeldMs);
}, 500_000);
