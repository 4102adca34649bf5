/**
 * `npm run demo:global`: two proxies that share one limit, counted by the rate limit service, on this machine and without
 * a key. Starts the mock LLM, the service and both proxies on `examples/global`, says what to type and what will happen,
 * and shows the proxies' log. The service may be ended and started again meanwhile; Ctrl-C ends everything.
 *
 * `npm run demo:global -- --port-offset 1000` adds that to every port, on a machine where some are taken. The proxies then
 * serve a copy of the folder, with those ports.
 */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { fail, isFree, type Program, start, stop, untilEnd } from "./demo.ts";

/** The second is another address of this machine, so that both proxies serve the same folder as two replicas would. */
const addresses = ["127.0.0.1", "127.0.0.2"] as const;
const [local] = addresses;

/** Those of `examples/global`, and the proxies' own; the second proxy's admin server listens on the next one. */
const usualPorts = { gateway: 8080, service: 8081, model: 8089, admin: 15000, stats: 15020, readiness: 15021 };
type Ports = Readonly<typeof usualPorts>;

const example = "examples/global";
const readyWithinMs = 30_000;

if (import.meta.main) await main();

async function main(): Promise<void> {
  const ports = portsOf(process.argv.slice(2));
  if (ports === undefined) {
    fail("accepted is --port-offset N, a whole number from 0 to 50000");
    return;
  }
  const taken = await takenAddresses(ports);
  if (taken !== undefined) {
    fail(`The demo cannot start: ${taken}, cannot be listened on. With --port-offset N it uses other ports.`);
    return;
  }
  const copy = ports.gateway === usualPorts.gateway ? undefined : await copyExample(ports);
  try {
    await run(ports, copy ?? example);
  } finally {
    if (copy !== undefined) await rm(copy, { recursive: true });
  }
}

/** Every port, moved by the offset that was asked for; undefined where that cannot be read. */
function portsOf(args: string[]): Ports | undefined {
  const { values } = parseArgs({ args, options: { "port-offset": { type: "string", default: "0" } }, strict: false });
  const offset = Number(values["port-offset"]);
  if (!Number.isInteger(offset) || offset < 0 || offset > 50_000) return undefined;
  return {
    gateway: usualPorts.gateway + offset,
    service: usualPorts.service + offset,
    model: usualPorts.model + offset,
    admin: usualPorts.admin + offset,
    stats: usualPorts.stats + offset,
    readiness: usualPorts.readiness + offset,
  };
}

/** The first address that is not free, with what it is for. */
async function takenAddresses({ gateway, service, model }: Ports): Promise<string | undefined> {
  const listening = [
    ...addresses.map((address) => ({ address, port: gateway, use: "a proxy" })),
    { address: local, port: service, use: "the rate limit service" },
    { address: local, port: model, use: "the mock LLM" },
  ];
  for (const { address, port, use } of listening) {
    if (!(await isFree(port, address))) return `${address}:${port}, for ${use}`;
  }
  return undefined;
}

/** The folder with other ports in its manifests. */
async function copyExample(ports: Ports): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "demo-global-"));
  await cp(example, folder, { recursive: true });
  for (const file of ["gateway.yaml", "limits.yaml"]) {
    const path = join(folder, file);
    const text = (await readFile(path, "utf8"))
      .replace(`port: ${usualPorts.gateway}`, `port: ${ports.gateway}`)
      .replace(`port: ${usualPorts.model}`, `port: ${ports.model}`)
      .replace(`:${usualPorts.service}`, `:${ports.service}`);
    await writeFile(path, text);
  }
  return folder;
}

/** Lasts until Ctrl-C, or until something ends that should not. */
async function run(ports: Ports, folder: string): Promise<void> {
  const interrupted = new Promise<undefined>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve(undefined));
  });
  const service = startService(ports, folder);
  const proxies = addresses.map((address, place) => startProxy(ports, folder, address, place));
  const model = start("the mock LLM", ["examples/mock-llm/src/main.ts"], { PORT: String(ports.model) });
  const programs = [model, ...proxies];
  const fault = await Promise.race([
    interrupted,
    ...programs.map(untilEnd),
    untilReady(ports).then((isReady) =>
      isReady ? converse(ports, folder, service, proxies) : "the proxies are not ready in time",
    ),
  ]);
  await Promise.all([...programs, service].map(stop));
  if (fault === undefined) return;
  for (const program of [...programs, service]) program.show();
  fail(`The demo has ended: ${fault}.`);
}

/** Its HTTP and debug ports are chosen by the system: nobody needs them here. */
function startService(ports: Ports, folder: string): Program {
  const args = ["ratelimit-service/src/main.ts", "--config-dir", join(folder, "service")];
  return start("the rate limit service", args, {
    HOST: local,
    GRPC_HOST: local,
    GRPC_PORT: String(ports.service),
    PORT: "0",
    DEBUG_PORT: "0",
  });
}

function startProxy({ admin, stats, readiness }: Ports, folder: string, address: string, place: number): Program {
  const name = place === 0 ? "the first proxy" : "the second proxy";
  const settings = ["--config-dir", folder, "--listen-address", address, "--workers", "1"];
  const pages = [
    ...["--admin-address", `${address}:${admin + place}`],
    ...["--stats-address", `${address}:${stats}`, "--readiness-address", `${address}:${readiness}`],
  ];
  return start(name, ["proxy/src/main.ts", ...settings, ...pages]);
}

/** Tells what to do, and lasts until something else ends the demo. */
function converse(ports: Ports, folder: string, service: Program, proxies: readonly Program[]): Promise<undefined> {
  console.log(instructions(ports, folder, service.process.pid ?? 0));
  for (const proxy of proxies) proxy.show();
  return new Promise(() => undefined);
}

function instructions({ gateway, service }: Ports, folder: string, servicePid: number): string {
  const grpcPort = service === usualPorts.service ? "" : `GRPC_PORT=${service} `;
  return `
Two proxies serve the same folder, and one rate limit service counts for both. Ask one and then the other, in another
terminal:

  for address in 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1; do
    curl -si http://$address:${gateway}/v1/chat/completions -H 'x-user: ann' -H 'content-type: application/json' \\
      -d '{"model":"mock-1","messages":[{"role":"user","content":"Hi"}]}' | grep -iE '^(HTTP|x-ratelimit|x-envoy)'
  done

Six answers a minute for ann, whichever proxy is asked; the seventh is a 429 of the service. Now pull its plug

  kill ${servicePid}

and ask on: no request fails, and each proxy admits three a minute by the fallback of ${folder}/limits.yaml. Start
the service again, and within two seconds both count together once more:

  GRPC_HOST=127.0.0.1 ${grpcPort}PORT=0 DEBUG_PORT=0 npm run ratelimit-service -- --config-dir ${folder}/service

Ctrl-C ends the demo. What follows is the log of both proxies.
`;
}

async function untilReady({ readiness }: Ports): Promise<boolean> {
  const inTime = AbortSignal.timeout(readyWithinMs);
  for (const address of addresses) {
    while (!(await isReady(`http://${address}:${readiness}/healthz/ready`, inTime))) {
      if (inTime.aborted) return false;
      await delay(50);
    }
  }
  return true;
}

async function isReady(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch(url, { signal })).ok;
  } catch {
    return false;
  }
}
