/** A proxy with counters in a directory, which tests end under load in one way or another. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "./free-port.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest } from "./gateway.ts";
import { type ProxyProcess, spawnProxy } from "./proxy-process.ts";

const limit = 1_000_000_000;
const key = `key: 'request.headers["x-client"]'`;
/** The windows, by the path that they limit. */
const windows: Readonly<Record<string, string>> = {
  fixed: "unit: Days",
  sliding: "unit: Hours, window: Sliding",
  calendar: "unit: Months, window: Calendar, timeZone: Europe/Berlin",
};
/** One counter each: the path and the client. */
const counters = Object.keys(windows).flatMap((path) => ["ada", "bob"].map((client) => ({ path, client })));

const redirect = "filters: [{ type: RequestRedirect, requestRedirect: { statusCode: 302 } }]";

function configuration(port: number): string {
  const parts = Object.entries(windows).flatMap(([path, window]) => [
    routeManifest(path, [`{ matches: [{ path: { value: /${path} } }], ${redirect} }`]),
    policyManifest(path, `kind: HTTPRoute, name: ${path}`, [`{ requests: ${limit}, ${window}, ${key} }`]),
  ]);
  return manifests(gatewayManifest(port), ...parts);
}

/** One life of the proxy. */
export interface Life {
  readonly proxy: ProxyProcess;
  readonly url: string;
}

/** A directory that is removed when the test ends. */
export async function stateDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "state-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

export async function startLife(directory: string): Promise<Life> {
  const life = await spawnLife(directory);
  await life.proxy.logged(({ msg }) => msg === "ready");
  return life;
}

/** Starts the proxy; does not wait for it to be ready. */
export async function spawnLife(directory: string): Promise<Life> {
  const port = await freePort();
  const args = ["--state-dir", directory, "--workers", "2", "--access-log", "off", "--drain-delay", "0ms"];
  const proxy = await spawnProxy({ "all.yaml": configuration(port) }, args);
  return { proxy, url: `http://127.0.0.1:${port}` };
}

/** Sends a request, and returns what its counter has, with this request. */
async function count({ url }: Life, { path, client }: (typeof counters)[number]): Promise<number> {
  const response = await fetch(`${url}/${path}`, { headers: { "x-client": client }, redirect: "manual" });
  await response.arrayBuffer();
  return limit - Number(response.headers.get("x-ratelimit-remaining"));
}

/** What the load of one life has counted. */
export interface Load {
  /** Stops when the proxy ends. Resolves when all requests have ended. */
  readonly ended: Promise<void>;
  /** Requests with a response so far. */
  completed(): number;
  /** For each counter, the requests that were sent, and those with a response before a time, in ms since 1970. */
  counts(untilMs: number): readonly { readonly sent: number; readonly completed: number }[];
  /** For each counter, the times of the responses, ascending, in ms since 1970. */
  completedAtMs(): readonly (readonly number[])[];
}

/** Sends requests for all counters until the proxy ends. */
export function startLoad(life: Life): Load {
  const states = counters.map((counter) => ({ counter, sent: 0, completedAtMs: [] as number[] }));
  let hasEnded = false;
  void life.proxy.exited.then(() => {
    hasEnded = true;
  });
  const ended = Promise.all(
    states.map(async (state) => {
      while (!hasEnded) {
        state.sent++;
        // A request that ends with the process may be counted or not.
        const isCompleted = await count(life, state.counter).then(
          () => true,
          () => false,
        );
        if (isCompleted) state.completedAtMs.push(Date.now());
      }
    }),
  );
  return {
    ended: ended.then(() => undefined),
    completed: () => states.reduce((sum, { completedAtMs }) => sum + completedAtMs.length, 0),
    completedAtMs: () => states.map(({ completedAtMs }) => completedAtMs),
    counts: (untilMs) =>
      states.map(({ sent, completedAtMs }) => ({ sent, completed: completedAtMs.filter((ms) => ms < untilMs).length })),
  };
}

/** Returns the units of each counter, before the requests that ask for them. */
export async function usedUnits(life: Life): Promise<readonly number[]> {
  return await Promise.all(counters.map(async (counter) => (await count(life, counter)) - 1));
}

/** Returns the time up to which everything is saved, in ms since 1970, by the metrics of the proxy. */
export async function savedUntilMs({ proxy }: Life): Promise<number> {
  const text = await (await fetch(`${proxy.stats}/metrics`)).text();
  const [, seconds] = /^gateway_proxy_state_last_save_timestamp_seconds (\S+)$/m.exec(text) ?? [];
  return Number(seconds) * 1_000;
}
