/** `/config_dump` of thousands of routes blocks the event loop of the main thread no longer than other responses. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { slowness } from "../support/relative-cost.ts";
import { startWatched } from "../support/watched-process.ts";

const mainFile = join(import.meta.dirname, "../../../proxy/src/main.ts");
const routes = 5_000;
const maxHeldMs = 100;

test("a dump of 5,000 routes is built and sent in turns of the event loop", async () => {
  const [port, adminPort] = [await freePort(), await freePort()];
  const folder = await mkdtemp(join(tmpdir(), "dump-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const all = Array.from({ length: routes }, (_, index) =>
    routeManifest(`r${index}`, [
      `{ matches: [{ path: { type: PathPrefix, value: /p${index} } }], backendRefs: [${backendRef("b")}] }`,
    ]),
  );
  await writeFile(join(folder, "all.yaml"), manifests(gatewayManifest(port), backendManifest("b", 9), ...all));
  const proxy = await startWatched({
    main: mainFile,
    args: [
      ...["--config-dir", folder, "--workers", "1", "--access-log", "off", "--listen-address", "127.0.0.1"],
      ...["--admin-address", `127.0.0.1:${adminPort}`],
    ],
    env: {},
    threads: 2,
  });
  const dump = async (): Promise<string> =>
    fetch(`http://127.0.0.1:${adminPort}/config_dump`).then(
      (response) => response.text(),
      () => "",
    );
  await expect.poll(async () => (await dump()).includes(`"default/r${routes - 1}"`), { timeout: 90_000 }).toBe(true);
  await dump();
  await proxy.longestHeldMs();
  const text = await dump();
  expect((JSON.parse(text) as { routes: unknown[] }).routes).toHaveLength(routes);
  expect(await proxy.longestHeldMs()).toBeLessThan(maxHeldMs * slowness());
}, 180_000);
