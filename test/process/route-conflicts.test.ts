/** Routes that match the same requests: which one serves them, and where the operator reads that. */
import { createServer } from "node:net";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { configDumpSchema } from "@gatewayproxy/admin-api/config-dump";
import { expect, onTestFinished, test, vi } from "vitest";
import { proxyctl } from "../../proxyctl/src/testing/run.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { startProxy } from "../support/proxy-process.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 });

const route = (name: string, rule: string): string =>
  routeManifest(name, [`{ ${rule}, backendRefs: [${backendRef(name)}] }`]);
const underX = "matches: [{ path: { type: PathPrefix, value: /x } }]";
const everything = "matches: []";
const limits = policyManifest("limits", "kind: HTTPRoute, name: second", ["{ requests: 1, unit: Hours }"]);

const why = "takes precedence, since its route comes first by namespace/name, and both are equally old";
const second = `no request can reach rule 0 (path prefix /x): rule 0 of HTTPRoute default/first matches the same and ${why}`;
const none2 = `no request can reach rule 0 (path prefix /): rule 0 of HTTPRoute default/none1 matches the same and ${why}`;

test("routes with the same matches, or none, are reported with the winner, and a policy on the loser is not attached", async () => {
  const names = ["first", "second", "none1", "none2"];
  const backends = await Promise.all(names.map(async (name) => startBackend(respondWith(200, name))));
  const port = await freePort();
  const all = manifests(
    gatewayManifest(port),
    ...names.map((name, index) => backendManifest(name, backends[index]?.port ?? 0)),
    ...[route("first", underX), route("second", underX), route("none1", everything), route("none2", everything)],
    limits,
  );
  const proxy = await startProxy({ "all.yaml": all });

  for (const path of ["/x", "/x", "/x/y"]) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    expect([response.status, await response.text()]).toEqual([200, "first"]);
  }
  expect(await (await fetch(`http://127.0.0.1:${port}/other`)).text()).toBe("none1");

  const conflicts = proxy.log.filter(({ msg }) => msg === "routes conflict");
  expect(conflicts.map(({ level, route: of, conflict }) => [level, of, conflict])).toEqual([
    ["warn", "default/none2", none2],
    ["warn", "default/second", second],
  ]);

  const dump = configDumpSchema.parse(await (await fetch(`${proxy.admin}/config_dump`)).json());
  expect(dump.conflicts.rules.map(({ rule, isReachable, winners }) => [rule, isReachable, winners[0]?.rule])).toEqual([
    ["default/none2/0", false, "default/none1/0"],
    ["default/second/0", false, "default/first/0"],
  ]);
  const shadowed = dump.routes.flatMap(({ name, parents }) =>
    parents.flatMap(({ conditions }) => conditions.flatMap(({ type }) => (type === "Shadowed" ? [name] : []))),
  );
  expect(shadowed).toEqual(["none2", "second"]);
  const [target] = dump.policies[0]?.targets ?? [];
  expect(target?.isAttached).toBe(false);
  expect(target?.conditions.at(-1)).toMatchObject({
    reason: "Shadowed",
    message: `it limits no request: ${second}`,
  });

  const address = ["--address", new URL(proxy.admin).host];
  const doctor = await proxyctl(["doctor", ...address]);
  expect(doctor.stdout).toContain(`warn   route conflicts       2 rules; HTTPRoute default/none2: ${none2}\n`);
  expect(doctor.stdout).toMatch(/^warn {3}routes +2 of 4 are not fully served/m);
  const config = await proxyctl(["config", "all", ...address]);
  expect(config.stdout).toContain(`HTTPRoute default/second: ${second}`);

  const folder = await mkdtemp(join(tmpdir(), "conflicts-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "routes.yaml"), all.replace(limits, ""));
  const validate = await proxyctl(["validate", "-f", folder]);
  expect(validate.exitCode).toBe(0);
  expect(validate.stdout).toMatch(
    /^warning: \S+routes\.yaml:\d+:\d+ HTTPRoute default\/second spec\.rules\[0\]: no request/m,
  );
  expect(validate.stderr).toMatch(
    /^\d+ resources read, no problems, 2 warnings\n {2}conflicts: .* --strict rejects that\n$/,
  );
  const strict = await proxyctl(["validate", "-f", folder, "--strict"]);
  expect([strict.exitCode, strict.stdout]).toEqual([1, validate.stdout.replaceAll("warning: ", "")]);
});

test.each(["quickstart", "global"])("the example %s has no conflict", async (name) => {
  const folder = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
  const { stdout, stderr } = await proxyctl(["validate", "-f", folder]);
  expect(stderr).toMatch(/resources read/);
  expect(stdout + stderr).not.toMatch(/no request can reach|do not reach/);
});

test("a Gateway with a port in use is reported in the dump and in proxyctl, and so is a policy on it", async () => {
  const holder = createServer();
  const held = await freePort();
  await new Promise<void>((resolve) => holder.listen(held, "127.0.0.1", resolve));
  onTestFinished(() => void holder.close());
  const other = gatewayManifest(held).replace("name: web", "name: other");
  const proxy = await startProxy({
    "all.yaml": manifests(
      ...[gatewayManifest(await freePort()), other],
      policyManifest("limits", "kind: Gateway, name: other", ["{ requests: 1, unit: Hours }"]),
    ),
  });
  const dump = configDumpSchema.parse(await (await fetch(`${proxy.admin}/config_dump`)).json());
  const programmed = dump.gateways.map(({ name, conditions }) => [
    name,
    conditions.find(({ type }) => type === "Programmed"),
  ]);
  expect(programmed).toEqual([
    ["other", expect.objectContaining({ status: "False", reason: "Pending" })],
    ["web", expect.objectContaining({ status: "True" })],
  ]);
  const message = dump.policies[0]?.targets[0]?.conditions.at(-1)?.message;
  expect(message).toBe("its local entry is enforced once Gateway default/other is programmed");
  const config = await proxyctl(["config", "all", "--address", new URL(proxy.admin).host]);
  expect(config.stdout).toMatch(/^other +default +True +Pending$/m);
  expect(config.stdout).toContain("! Programmed=False (Pending): listener http:");
  expect(config.stdout).toContain(String(held));
});
