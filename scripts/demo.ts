/**
 * `npm run demo`: a conversation with a language model that is limited by tokens, on this machine and without a key.
 *
 * Starts the mock LLM and the proxy on `examples/quickstart`, waits until the proxy is ready, says what to type and what
 * will happen, and then shows the proxy's log. Ctrl-C, or the end of either program, ends both.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const root = dirname(import.meta.dirname);
const host = "127.0.0.1";

/** All that the demo listens on. The first two are written in examples/quickstart, the others are the proxy's own. */
const ports = [
  { port: 8080, use: "the gateway" },
  { port: 8089, use: "the mock LLM" },
  { port: 15000, use: "the proxy's admin server" },
  { port: 15020, use: "the proxy's metrics" },
  { port: 15021, use: "the proxy's readiness" },
] as const;

const readyWithinMs = 30_000;
/** Longer than the proxy gives running requests to finish before it closes them. */
const stopWithinMs = 15_000;

/** A child of a demo. */
export interface Program {
  readonly name: string;
  readonly process: ChildProcess;
  /** Resolves when it has ended, with how it did. */
  readonly ended: Promise<string>;
  /** Prints what it has written so far, and from now on. */
  show(): void;
}

async function main(): Promise<void> {
  const taken = await takenPorts();
  if (taken.length > 0) {
    fail(["The demo cannot start:", ...taken, "End what listens there and try again."].join("\n"));
    return;
  }
  const over = new AbortController();
  const interrupted = new Promise<undefined>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve(undefined));
  });
  const mock = start("the mock LLM", ["examples/mock-llm/src/main.ts"]);
  const proxy = start("the proxy", ["proxy/src/main.ts", "--config-dir", "examples/quickstart"]);
  try {
    const ready = untilReady(over.signal).then((isReady) => (isReady ? converse(proxy) : "the proxy is not ready"));
    const fault = await Promise.race([interrupted, untilEnd(mock), untilEnd(proxy), ready]);
    if (fault === undefined) return;
    for (const program of [mock, proxy]) program.show();
    fail(`The demo has ended: ${fault}.`);
  } finally {
    over.abort();
    await Promise.all([stop(proxy), stop(mock)]);
  }
}

/** Tells what to do, and lasts until something else ends the demo. */
function converse(proxy: Program): Promise<undefined> {
  console.log(instructions);
  proxy.show();
  return new Promise(() => undefined);
}

const instructions = `
A language model is behind the gateway, limited to 10 requests a minute (with 5 more at once) and 1000 tokens a minute.
Ask it something, in another terminal, and ask again:

  curl -i http://${host}:8080/v1/chat/completions \\
    -H 'content-type: application/json' \\
    -d '{"model":"mock-1","messages":[{"role":"user","content":"What is a rate limit?"}]}'

Each answer costs 126 tokens, and its x-ratelimit headers say where the limit stands that is nearer to its end. The
eighth goes over the thousand and arrives whole. The ninth request never reaches the model:

  HTTP/1.1 429 Too Many Requests
  x-ratelimit-limit: 1000
  x-ratelimit-remaining: 0
  x-ratelimit-reset: the seconds until the thousand are there again

  rate limit exceeded

Then try it with -N and "stream":true in the question, which counts the same; or with -H 'x-mock-total-tokens: 1200',
which spends the minute on one answer. The limits are in examples/quickstart/limits.yaml; change them while this runs.

  gateway    http://${host}:8080/v1
  mock LLM   http://${host}:8089/v1
  admin      http://${host}:15000, its page http://${host}:15000/ui
  metrics    http://${host}:15020/metrics

Ctrl-C ends the demo. What follows is the proxy's log.
`;

/** Each port that is not free, with what it is for. */
async function takenPorts(): Promise<readonly string[]> {
  const checked = await Promise.all(ports.map(async (each) => ({ ...each, isFree: await isFree(each.port) })));
  return checked
    .filter((each) => !each.isFree)
    .map(({ port, use }) => `  port ${port} of ${host}, for ${use}, is taken`);
}

/** Whether a port of an address can be listened on. */
export async function isFree(port: number, address = host): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, address);
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}

/** Starts a file of the repository, holding back what it writes until `show`; `env` adds to the environment. */
export function start(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let held: Buffer[] | undefined = [];
  const print = (chunk: Buffer) => {
    if (held === undefined) process.stdout.write(chunk);
    else held.push(chunk);
  };
  child.stdout.on("data", print);
  child.stderr.on("data", print);
  return {
    name,
    process: child,
    ended: once(child, "exit").then(([code, signal]) =>
      code === null ? `by ${String(signal)}` : `with status ${String(code)}`,
    ),
    show() {
      process.stdout.write(Buffer.concat(held ?? []));
      held = undefined;
    },
  };
}

/** Resolves when the program has ended, with a sentence about it. */
export async function untilEnd(program: Program): Promise<string> {
  return `${program.name} has ended ${await program.ended}`;
}

/** @returns false when the proxy is not ready within `readyWithinMs`, or `signal` has aborted */
async function untilReady(signal: AbortSignal): Promise<boolean> {
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(readyWithinMs)]);
  while (!inTime.aborted) {
    try {
      const { ok } = await fetch(`http://${host}:15021/healthz/ready`, { signal: inTime });
      if (ok) return true;
    } catch {
      // Not listening yet.
    }
    await delay(50);
  }
  return false;
}

/** Asks the program to end, and insists after a while. */
export async function stop({ process: child, ended }: Program): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const insist = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await ended;
  clearTimeout(insist);
}

/** Says why the demo is over; the exit code is set, not taken. */
export function fail(message: string): void {
  console.error(message);
  process.exitCode = 1;
}

if (import.meta.main) await main();
