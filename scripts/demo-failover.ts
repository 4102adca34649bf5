/**
 * `npm run demo:failover`: a conversation that survives a provider that is out of quota, slow, or away, on this machine
 * and without an API key. Starts two mock LLMs and the proxy with `examples/failover`, holds the conversation, and
 * prints who has responded to each turn and what it cost. Then it says what to type.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Program, start, stop } from "./demo/programs.ts";
import { runDemo } from "./demo/run-demo.ts";

const host = "127.0.0.1";

/** The ports of the example and of the proxy. */
const usualPorts = { gateway: 8080, primary: 8089, spare: 8090, admin: 15000, stats: 15020, readiness: 15021 };
type Ports = Readonly<typeof usualPorts>;
/** The limit of `limits.yaml`. */
const limit = 10_000;
/** The reset that the first provider says, in seconds. */
const resetSeconds = 3;

await runDemo({
  script: "demo:failover",
  summary: "Starts two mock LLMs and the gateway in front of them, and holds a conversation while one of them fails.",
  folder: "examples/failover",
  ports: usualPorts,
  places: (ports) => [
    { address: host, port: ports.gateway, use: "the gateway" },
    { address: host, port: ports.primary, use: "the first mock LLM" },
    { address: host, port: ports.spare, use: "the second mock LLM" },
    { address: host, port: ports.admin, use: "the proxy's admin server" },
    { address: host, port: ports.stats, use: "the proxy's metrics" },
    { address: host, port: ports.readiness, use: "the proxy's readiness" },
  ],
  start(ports, folder) {
    const primary = startMock("the first mock LLM", ports.primary);
    return {
      proxies: [startProxy(ports, folder)],
      needed: [startMock("the second mock LLM", ports.spare)],
      optional: [primary],
      show: () => holdConversation(ports, primary),
      instructions: instructions(ports),
    };
  },
});

function startMock(name: string, port: number): Program {
  return start(name, ["examples/mock-llm/src/main.ts"], { PORT: String(port) });
}

function startProxy({ admin, stats, readiness }: Ports, folder: string): Program {
  return start("the proxy", [
    ...["proxy/src/main.ts", "--config-dir", folder, "--admin-address", `${host}:${admin}`],
    ...["--stats-address", `${host}:${stats}`, "--readiness-address", `${host}:${readiness}`],
  ]);
}

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** The response to one turn. */
interface Turn {
  readonly model: string;
  readonly content: string;
  readonly tokens: number;
}

/** Holds the conversation. @throws if a turn has no response, or the limit was not charged exactly once. */
async function holdConversation(ports: Ports, primary: Program): Promise<void> {
  const url = `http://${host}:${ports.gateway}/v1/chat/completions`;
  const messages: Message[] = [];
  let charged = 0;
  let number = 0;
  console.log(row("turn", "primary", "responded", "attempts", "tokens", "remaining"));
  const ask = async (state: string, content: string, isStream = false): Promise<void> => {
    messages.push({ role: "user", content });
    const before = await attemptsOf(ports);
    const turn = await complete(url, messages, isStream);
    messages.push({ role: "assistant", content: turn.content });
    charged += turn.tokens;
    const remaining = await remainingAt(url);
    if (remaining !== limit - charged) {
      throw new Error(`turn ${number + 1} left ${remaining} tokens of the limit, expected ${limit - charged}`);
    }
    const attempts = (await attemptsOf(ports)) - before;
    console.log(row(++number, state, turn.model.replace("-model", ""), attempts, turn.tokens, remaining));
  };
  await untilListening(ports.primary);
  await ask("responds", "What is a rate limit?");
  await behave(ports.primary, { status: 429, "retry-after": resetSeconds });
  await ask(`429, retry-after ${resetSeconds}`, "And what is a token?");
  await behave(ports.primary, {});
  await ask("is left alone until its reset", "How do I stream a response?");
  await delay(resetSeconds * 1_000 + 200);
  await ask("responds again after its reset", "What is a burst?");
  await behave(ports.primary, { "first-byte-ms": 30_000 });
  await ask("sends nothing for 2 s", "What does a window do?");
  await behave(ports.primary, { "abort-after": 0 });
  await ask("cuts the stream at once", "Tell me about streaming.", true);
  await stop(primary);
  await ask("has ended", "Are you still there?");
  console.log(`\nThe responses cost ${charged} tokens, and the limit was charged ${charged}.\n`);
}

/** Sends the conversation so far. */
async function complete(url: string, messages: readonly Message[], isStream: boolean): Promise<Turn> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "chat", messages, ...(isStream && { stream: true }) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`a turn got ${response.status}: ${text}`);
  const chunks = isStream ? eventsOf(text) : [JSON.parse(text) as Completion];
  return {
    model: chunks.find(({ model }) => model !== undefined)?.model ?? "",
    content: chunks.map(({ choices: [choice] = [] }) => (choice?.message ?? choice?.delta)?.content ?? "").join(""),
    tokens: chunks.findLast(({ usage }) => usage != null)?.usage?.total_tokens ?? 0,
  };
}

/** A completion of OpenAI's API, whole or a chunk of a stream. */
interface Completion {
  readonly model?: string;
  readonly choices?: readonly {
    readonly message?: { readonly content?: string };
    readonly delta?: { readonly content?: string };
  }[];
  readonly usage?: { readonly total_tokens: number } | null;
}

function eventsOf(text: string): readonly Completion[] {
  return [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = "{}"]) => JSON.parse(json) as Completion);
}

/** What remains of the token limit, by a request that no provider gets. */
async function remainingAt(url: string): Promise<number> {
  const { headers } = await fetch(new URL("/v1/nothing", url), { method: "POST" });
  return Number(headers.get("x-ratelimit-remaining"));
}

/** The number of attempts at all providers so far, by the metrics of the proxy. */
async function attemptsOf({ stats }: Ports): Promise<number> {
  const text = await (await fetch(`http://${host}:${stats}/metrics`)).text();
  const counted = text.matchAll(/^gateway_proxy_(?:upstream_requests|provider_failovers)_total\{.*\} (\d+)$/gm);
  return [...counted].reduce((sum, [, count = "0"]) => sum + Number(count), 0);
}

/** Sets what a mock does with later requests. */
async function behave(port: number, members: object): Promise<void> {
  await fetch(`http://${host}:${port}/mock/behavior`, { method: "PUT", body: JSON.stringify(members) });
}

/** Resolves when the mock has opened its port. */
async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const isOpen = await fetch(`http://${host}:${port}/v1/models`).then(
      () => true,
      () => false,
    );
    if (isOpen) return;
    await delay(100);
  }
  throw new Error(`no mock LLM listens on port ${port}`);
}

function row(...cells: readonly (number | string)[]): string {
  const widths = [6, 33, 11, 10, 8, 0];
  return cells.map((cell, place) => String(cell).padEnd(widths[place] ?? 0)).join("");
}

function instructions({ gateway, primary, spare, admin, stats }: Ports): string {
  const port = primary === usualPorts.primary ? "" : `PORT=${primary} `;
  return `The gateway is ready. The first provider is away, and the gateway uses the second one. In another terminal:

  curl -i http://${host}:${gateway}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"any","messages":[{"role":"user","content":"What is a rate limit?"}]}'

Start the first one again, and let either of them fail:

  ${port}npm run mock-llm
  curl -X PUT http://${host}:${spare}/mock/behavior -d '{"status": 429, "retry-after": 20}'

  who is available  npm run --silent proxyctl -- config backends --address ${host}:${admin} -o wide
  admin page        http://${host}:${admin}/ui#backends
  metrics           http://${host}:${stats}/metrics

Ctrl-C ends the demo. The access log follows, a line for each request.
`;
}
