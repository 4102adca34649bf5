/**
 * `npm run demo:global`: two proxies that share one limit, counted by the rate limit service, on this machine and without
 * a key. Starts the mock LLM, the service and both proxies on `examples/global`, says what to type and what will happen,
 * and shows the proxies' log. The service may be ended and started again meanwhile; Ctrl-C ends everything.
 */
import { setTimeout as delay } from "node:timers/promises";
import { fail, isFree, type Program, start, stop, untilEnd } from "./demo.ts";

const first = { address: "127.0.0.1", port: 8080 };
/** A second address of this machine, so that both proxies serve the same folder as two replicas would. */
const second = { address: "127.0.0.2", port: 8080 };

const listening = [
  { ...first, use: "the first proxy" },
  { ...second, use: "the second proxy" },
  { address: "127.0.0.1", port: 8081, use: "the rate limit service" },
  { address: "127.0.0.1", port: 8089, use: "the mock LLM" },
];

const readyWithinMs = 30_000;

if (import.meta.main) await main();

async function main(): Promise<void> {
  for (const { address, port, use } of listening) {
    if (await isFree(port, address)) continue;
    fail(`The demo cannot start: ${address}:${port}, for ${use}, cannot be listened on.`);
    return;
  }
  const interrupted = new Promise<undefined>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve(undefined));
  });
  const service = startService();
  const proxies = [startProxy("the first proxy", first.address, 0), startProxy("the second proxy", second.address, 1)];
  const programs = [start("the mock LLM", ["examples/mock-llm/src/main.ts"]), ...proxies];
  const fault = await Promise.race([
    interrupted,
    ...programs.map(untilEnd),
    untilReady().then((isReady) => (isReady ? converse(service, proxies) : "the proxies are not ready in time")),
  ]);
  await Promise.all([...programs, service].map(stop));
  if (fault === undefined) return;
  for (const program of [...programs, service]) program.show();
  fail(`The demo has ended: ${fault}.`);
}

/** Its HTTP and debug ports are chosen by the system: nobody needs them here. */
function startService(): Program {
  const args = ["ratelimit-service/src/main.ts", "--config-dir", "examples/global/service"];
  return start("the rate limit service", args, {
    HOST: "127.0.0.1",
    GRPC_HOST: "127.0.0.1",
    PORT: "0",
    DEBUG_PORT: "0",
  });
}

function startProxy(name: string, address: string, place: number): Program {
  const folder = ["--config-dir", "examples/global", "--listen-address", address, "--workers", "1"];
  const pages = [
    ...["--admin-address", `${address}:${15_000 + place}`],
    ...["--stats-address", `${address}:15020`, "--readiness-address", `${address}:15021`],
  ];
  return start(name, ["proxy/src/main.ts", ...folder, ...pages]);
}

/** Tells what to do, and lasts until something else ends the demo. */
function converse(service: Program, proxies: readonly Program[]): Promise<undefined> {
  console.log(instructions(service.process.pid ?? 0));
  for (const proxy of proxies) proxy.show();
  return new Promise(() => undefined);
}

function instructions(servicePid: number): string {
  return `
Two proxies serve the same folder, and one rate limit service counts for both. Ask one and then the other, in another
terminal:

  for address in 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1; do
    curl -si http://$address:8080/v1/chat/completions -H 'x-user: ann' -H 'content-type: application/json' \\
      -d '{"model":"mock-1","messages":[{"role":"user","content":"Hi"}]}' | grep -iE '^(HTTP|x-ratelimit|x-envoy)'
  done

Six answers a minute for ann, whichever proxy is asked; the seventh is a 429 of the service. Now pull its plug

  kill ${servicePid}

and ask on: no request fails, and each proxy admits three a minute by the fallback of examples/global/limits.yaml. Start
the service again, and within two seconds both count together once more:

  GRPC_HOST=127.0.0.1 PORT=0 DEBUG_PORT=0 npm run ratelimit-service -- --config-dir examples/global/service

Ctrl-C ends the demo. What follows is the log of both proxies.
`;
}

async function untilReady(): Promise<boolean> {
  const inTime = AbortSignal.timeout(readyWithinMs);
  for (const { address } of [first, second]) {
    while (!(await isReady(address, inTime))) {
      if (inTime.aborted) return false;
      await delay(50);
    }
  }
  return true;
}

async function isReady(address: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch(`http://${address}:15021/healthz/ready`, { signal })).ok;
  } catch {
    return false;
  }
}
