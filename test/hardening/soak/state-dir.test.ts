/**
 * `--state-dir` under load: the proxy is killed with SIGKILL at random moments, HARDENING_KILLS times, or for
 * HARDENING_SECONDS without this variable. Every fourth process is killed before it is ready. No counter loses more
 * than the requests of the last second before a kill, over all kills, and none has more than was sent. `npm run
 * soak:kills` kills 200 times and prints what was lost.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Life, spawnLife, startLife, startLoad, stateDirectory, usedUnits } from "../../support/mortal-proxy.ts";
import { hardeningSeconds } from "../support/fuzz.ts";

const seconds = Math.max(hardeningSeconds ?? 0, 20);
const wantedKills = process.env["HARDENING_KILLS"] === undefined ? undefined : Number(process.env["HARDENING_KILLS"]);
const timeoutMs = wantedKills === undefined ? (seconds + 120) * 1_000 : 60_000 + wantedKills * 20_000;
const maxLostMs = 1_000;
const maxLifeMs = 2_000;

test("a proxy that is killed loses at most a second", { timeout: timeoutMs }, async () => {
  const directory = await stateDirectory();
  const endMs = Date.now() + seconds * 1_000;
  const found = { kills: 0, starts: 0, completed: 0, lost: 0, mostLostMs: 0, torn: 0, aside: 0 };
  const isOver = () => (wantedKills === undefined ? Date.now() >= endMs : found.kills >= wantedKills);
  let startMs = 0;

  async function kill({ proxy }: Life): Promise<number> {
    const killedMs = Date.now();
    proxy.kill("SIGKILL");
    await proxy.exited;
    found.kills++;
    found.torn += countLines(proxy, "the last save was not finished");
    found.aside += countLines(proxy, "put aside");
    return killedMs;
  }

  /** Starts the proxy, sometimes after a start that ends early. */
  async function start(): Promise<Life> {
    if (found.kills % 4 === 3 && !isOver()) {
      const life = await spawnLife(directory);
      await sleep(Math.random() * startMs);
      await kill(life);
      found.starts++;
    }
    const beginMs = performance.now();
    const life = await startLife(directory);
    startMs = performance.now() - beginMs;
    return life;
  }

  let life = await start();
  let before = await usedUnits(life);
  while (!isOver()) {
    const load = startLoad(life);
    await sleep(Math.random() * maxLifeMs);
    const killedMs = await kill(life);
    await load.ended;
    life = await start();
    const used = await usedUnits(life);
    const all = load.counts(Infinity);
    const times = load.completedAtMs();
    for (const [at, units] of used.entries()) {
      const had = before[at] ?? 0;
      expect(units, `counter ${at} after ${found.kills} kills`).toBeLessThanOrEqual(had + 1 + (all[at]?.sent ?? 0));
      const completed = times[at] ?? [];
      const lost = Math.max(0, had + completed.length - units);
      expect(lost, `counter ${at} has less than it had before, after ${found.kills} kills`).toBeLessThanOrEqual(
        completed.length,
      );
      found.completed += completed.length;
      found.lost += lost;
      if (lost > 0) found.mostLostMs = Math.max(found.mostLostMs, killedMs - (completed[completed.length - lost] ?? 0));
    }
    before = used;
  }
  console.log(
    `soak of saved counters: ${found.kills} kills, ${found.starts} of them during a start; ${found.completed} requests with a ` +
      `response, ${found.lost} of them lost, at most those of ${found.mostLostMs} ms; ${found.torn} saves were cut`,
  );
  // A save that a kill has cut is left out. A file is put aside only if it has changed.
  expect(found.aside).toBe(0);
  expect(found.mostLostMs).toBeLessThanOrEqual(maxLostMs);
});

function countLines({ log }: Life["proxy"], text: string): number {
  return log.filter(({ msg }) => String(msg).includes(text)).length;
}
