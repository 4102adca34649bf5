/**
 * `npm run demo`: a limit of tokens for a language model, on this machine and without an API key. Starts the mock LLM
 * and the proxy with `examples/quickstart`, prints commands to try, and shows the access log of the proxy.
 */
import { type Program, start } from "./demo/programs.ts";
import { runDemo } from "./demo/run-demo.ts";

const host = "127.0.0.1";

/** The ports of the example and of the proxy. */
const usualPorts = { gateway: 8080, model: 8089, admin: 15000, stats: 15020, readiness: 15021 };
type Ports = Readonly<typeof usualPorts>;

await runDemo({
  script: "demo",
  summary:
    "Starts a mock LLM and the gateway in front of it, limited by requests and by tokens, and says what to type.",
  folder: "examples/quickstart",
  ports: usualPorts,
  places: ({ gateway, model, admin, stats, readiness }) => [
    { address: host, port: gateway, use: "the gateway" },
    { address: host, port: model, use: "the mock LLM" },
    { address: host, port: admin, use: "the proxy's admin server" },
    { address: host, port: stats, use: "the proxy's metrics" },
    { address: host, port: readiness, use: "the proxy's readiness" },
  ],
  start: (ports, folder) => ({
    proxies: [startProxy(ports, folder)],
    needed: [start("the mock LLM", ["examples/mock-llm/src/main.ts"], { PORT: String(ports.model) })],
    optional: [],
    instructions: instructions(ports, folder),
  }),
});

function startProxy({ admin, stats, readiness }: Ports, folder: string): Program {
  return start("the proxy", [
    ...["proxy/src/main.ts", "--config-dir", folder, "--admin-address", `${host}:${admin}`],
    ...["--stats-address", `${host}:${stats}`, "--readiness-address", `${host}:${readiness}`],
  ]);
}

function instructions({ gateway, admin, stats }: Ports, folder: string): string {
  return `The gateway is ready. Ask the model something, in another terminal, and again:

  curl -i http://${host}:${gateway}/v1/chat/completions \\
    -H 'content-type: application/json' \\
    -d '{"model":"mock-1","messages":[{"role":"user","content":"What is a rate limit?"}]}'

It is limited to 10 requests a minute, with 5 more at once, and 1000 tokens a
minute. Each response costs 126 tokens, so the ninth request is denied with 429,
and x-ratelimit-reset says after how many seconds there are tokens again.

Then add -N and "stream":true, or -H 'x-mock-total-tokens: 1200'. Or edit
${folder}/limits.yaml: the next request sees it.

  admin page  http://${host}:${admin}/ui
  metrics     http://${host}:${stats}/metrics

Ctrl-C ends the demo. The access log follows, a line for each request.
`;
}
