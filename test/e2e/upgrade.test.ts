/** The chart of the previous release is replaced by this one under load. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { failuresOf, send, startLoad, tally } from "./support/client.ts";
import {
  apply,
  createNamespace,
  eventually,
  helm,
  kubectl,
  list,
  readyProxies,
  release,
  systemNamespace,
} from "./support/cluster.ts";
import { gateway, grantService, llm, policy, route, service } from "./support/manifests.ts";
import { findPreviousRelease, preparePreviousRelease, type PreviousRelease } from "./support/previous-release.ts";

const repository = join(import.meta.dirname, "../..");
const chart = join(repository, "deploy/helm/gateway-proxy");
const namespace = "e2e-upgrade";
const inSystem = ["--namespace", systemNamespace, "--wait", "--timeout", "180s"] as const;

const folder = mkdtempSync(join(tmpdir(), "e2e-upgrade-"));
/** The values of the installed release. */
const values = join(folder, "values.yaml");
/** On a busy machine it takes minutes to replace all pods of a release. */
const polling = { timeoutMs: 180_000 };

let previous: PreviousRelease;
let created: AsyncDisposable;

const commit = await findPreviousRelease();
if (commit === undefined) test.skip("the previous release, which this shallow clone lacks: git fetch --unshallow");
else describe("the previous release", () => testUpgradeFrom(commit));

function testUpgradeFrom(from: string): void {
  beforeAll(async () => {
    previous = await preparePreviousRelease(from);
    writeFileSync(values, await helm(["get", "values", release, "--namespace", systemNamespace, "--output", "yaml"]));
    await helm(["uninstall", release, "--namespace", systemNamespace]);
    await helm(["install", release, previous.chart, ...inSystem, "--values", values, ...previous.imageArgs]);
    created = await createNamespace(namespace);
    await apply(systemNamespace, grantService(namespace));
    await apply(namespace, llm, ...gateway("web"), route("own", "web", "/own"), route("shared", "web", "/shared"));
    const local = [{ requests: 1_000_000, unit: "Hours" }];
    const global = {
      backendRef: service,
      domain: "team",
      descriptors: [{ entries: [{ name: "user", expression: 'request.headers["x-user"]' }] }],
    };
    await apply(
      namespace,
      policy("own", { kind: "HTTPRoute", name: "own" }, { local }),
      policy("shared", { kind: "HTTPRoute", name: "shared" }, { global }),
    );
    await kubectl(["-n", namespace, "wait", "gateway/web", "--for=condition=Programmed", "--timeout=90s"]);
    await eventually("the proxies of the previous release serve", () => allServe(previous.version), polling);
  }, 600_000);

  afterAll(async () => {
    await helm(["upgrade", "--install", release, chart, ...inSystem, "--values", values]);
    await created[Symbol.asyncDispose]();
    await kubectl(["-n", systemNamespace, "delete", "referencegrant", namespace, "--ignore-not-found"]);
    previous[Symbol.dispose]();
    rmSync(folder, { recursive: true });
  });

  test("is replaced by this chart without a failed request", { timeout: 400_000 }, async () => {
    await using own = startLoad({ path: "/own/v1/models" });
    await using shared = startLoad({ path: "/shared/v1/models" });
    await helm(["upgrade", release, chart, ...inSystem, "--reset-values", "--values", values]);
    await eventually("the proxies of this release serve", () => allServe(currentTag()), polling);
    const responses = await own.stop();
    expect(tally(responses)).toEqual({ 200: responses.length });
    expect(failuresOf(await shared.stop())).toEqual([]);
    expect(responses.length).toBeGreaterThan(100);
  });
}

/** True when both proxies of the Gateway, and no other pod, are ready and run an image with this tag. */
async function allServe(tag: string): Promise<true | undefined> {
  const pods = await list("pods", "-n", namespace, "-l", "gateway.networking.k8s.io/gateway-name=web");
  const ready = await readyProxies(namespace, "web");
  const areThese = pods.every((pod) => JSON.stringify(pod.spec).includes(`gateway-proxy:${tag}"`));
  if (pods.length !== 2 || ready.length !== 2 || !areThese) return undefined;
  const { status, headers } = await send({ path: "/own/v1/models" });
  return status === 200 && headers["x-ratelimit-limit"] === "1000000" ? true : undefined;
}

/** The tag of the proxies' image that kind-up.sh has built. */
function currentTag(): string {
  // Written by helm from the values of kind-up.sh.
  const { controller } = parse(readFileSync(values, "utf8")) as { controller: { image: { tag: string } } };
  return controller.image.tag;
}
