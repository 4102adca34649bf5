/**
 * `--state-dir` under load: the proxy is killed with SIGKILL at random moments, for HARDENING_SECONDS. No counter loses more than
 * the last second of its requests, and none has more than were sent.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startLife, startLoad, stateDirectory, usedUnits } from "../../support/mortal-proxy.ts";
import { hardeningSeconds } from "../support/fuzz.ts";

const seconds = Math.max(hardeningSeconds ?? 0, 20);
const maxLostMs = 1_000;

test("a proxy that is killed loses at most a second", { timeout: (seconds + 120) * 1_000 }, async () => {
  const directory = await stateDirectory();
  const endMs = Date.now() + seconds * 1_000;
  let kills = 0;
  let [completed, lost] = [0, 0];
  let life = await startLife(directory);
  let before = await usedUnits(life);
  while (Date.now() < endMs) {
    const load = startLoad(life);
    await sleep(Math.random() * 3_000);
    const killedMs = Date.now();
    life.proxy.kill("SIGKILL");
    await life.proxy.exited;
    await load.ended;
    life = await startLife(directory);
    const used = await usedUnits(life);
    const [all, old] = [load.counts(Infinity), load.counts(killedMs - maxLostMs)];
    for (const [at, units] of used.entries()) {
      const had = before[at] ?? 0;
      expect(units, `counter ${at} after ${kills} kills`).toBeGreaterThanOrEqual(had + (old[at]?.completed ?? 0));
      expect(units, `counter ${at} after ${kills} kills`).toBeLessThanOrEqual(had + 1 + (all[at]?.sent ?? 0));
      completed += all[at]?.completed ?? 0;
      lost += Math.max(0, had + (all[at]?.completed ?? 0) - units);
    }
    before = used;
    kills++;
  }
  console.log(`soak of saved counters: ${kills} kills, ${completed} requests with a response, ${lost} of them lost`);
});
