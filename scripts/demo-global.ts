/**
 * `npm run demo:global`: two proxies that share one limit of the rate limit service, on this machine and without an API
 * key. Starts the mock LLM, the service and both proxies with `examples/global`, prints commands to try, and shows the
 * logs of both proxies. The user may end and restart the service meanwhile.
 */
import { join } from "node:path";
import { type Program, start } from "./demo/programs.ts";
import { runDemo } from "./demo/run-demo.ts";

/** Two addresses of this machine, so that both proxies can serve the same folder, like two replicas. */
const addresses = ["127.0.0.1", "127.0.0.2"] as const;
const [local] = addresses;

/** The ports of the example and of the proxies. The admin servers have different ports. */
const usualPorts = {
  ...{ gateway: 8080, service: 8081, model: 8089 },
  ...{ admin: 15000, secondAdmin: 15001, stats: 15020, readiness: 15021 },
};
type Ports = Readonly<typeof usualPorts>;

await runDemo({
  script: "demo:global",
  summary: "Starts a mock LLM, two proxies in front of it and a service that counts for both, and says what to type.",
  folder: "examples/global",
  ports: usualPorts,
  places: (ports) => [
    { address: local, port: ports.service, use: "the rate limit service" },
    { address: local, port: ports.model, use: "the mock LLM" },
    ...addresses.flatMap((address, place) => [
      { address, port: ports.gateway, use: `proxy ${place + 1}` },
      { address, port: adminPort(ports, place), use: `the admin server of proxy ${place + 1}` },
      { address, port: ports.stats, use: `the metrics of proxy ${place + 1}` },
      { address, port: ports.readiness, use: `the readiness of proxy ${place + 1}` },
    ]),
  ],
  start(ports, folder) {
    const service = startService(ports, folder);
    return {
      proxies: addresses.map((_, place) => startProxy(ports, folder, place)),
      needed: [start("the mock LLM", ["examples/mock-llm/src/main.ts"], { PORT: String(ports.model) })],
      optional: [service],
      instructions: instructions(ports, folder, service.process.pid ?? 0),
    };
  },
});

function adminPort({ admin, secondAdmin }: Ports, place: number): number {
  return place === 0 ? admin : secondAdmin;
}

/** Starts the service. The system chooses its HTTP and debug ports, which the demo does not use. */
function startService(ports: Ports, folder: string): Program {
  const args = ["ratelimit-service/src/main.ts", "--config-dir", join(folder, "service")];
  return start("the rate limit service", args, {
    HOST: local,
    GRPC_HOST: local,
    GRPC_PORT: String(ports.service),
    PORT: "0",
    DEBUG_PORT: "0",
    // No load balancer has to notice the shutdown, and the next request after `kill` should find no service.
    SHUTDOWN_DRAIN_DELAY: "0s",
  });
}

function startProxy(ports: Ports, folder: string, place: number): Program {
  const address = addresses[place] ?? local;
  const settings = ["--config-dir", join(folder, "manifests"), "--listen-address", address, "--workers", "1"];
  const pages = [
    ...["--admin-address", `${address}:${adminPort(ports, place)}`],
    ...["--stats-address", `${address}:${ports.stats}`, "--readiness-address", `${address}:${ports.readiness}`],
  ];
  return start(`proxy ${place + 1}`, ["proxy/src/main.ts", ...settings, ...pages]);
}

function instructions({ gateway, service }: Ports, folder: string, servicePid: number): string {
  const grpcPort = service === usualPorts.service ? "" : `GRPC_PORT=${service} `;
  return `Two proxies are ready, and one service counts for both. In another terminal:

  for address in 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1 127.0.0.2 127.0.0.1; do
    curl -si http://$address:${gateway}/v1/chat/completions -H 'x-user: ann' -H 'content-type: application/json' \\
      -d '{"model":"mock-1","messages":[{"role":"user","content":"Hi"}]}' | grep -iE '^(HTTP|x-ratelimit|x-envoy)'
  done

Six requests a minute for ann, whichever proxy is asked; the service denies the
seventh with 429. Now end the service and ask again, as another user:

  kill ${servicePid}

No request fails. Each proxy admits three a minute of each user, by the fallback
in ${folder}/manifests/limits.yaml. Start the service again:

  GRPC_HOST=127.0.0.1 ${grpcPort}PORT=0 DEBUG_PORT=0 npm run ratelimit-service -- --config-dir ${folder}/service

Ctrl-C ends the demo. The log of both proxies follows.
`;
}
