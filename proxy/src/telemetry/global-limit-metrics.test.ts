import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { Logs } from "@gatewayproxy/runtime/log";
import { expect, test } from "vitest";
import { GlobalLimitMetrics } from "./global-limit-metrics.ts";

test("a service that no policy uses any more has no open breaker and no buffered charge", () => {
  const filter = { level: "off", modules: new Map() } as const;
  const logs = new Logs({ filter, clock: new FakeClock(), destination: { write: () => undefined } });
  const metrics = new GlobalLimitMetrics(logs.logger("proxy::ratelimit"));
  const gauges = (): unknown[] =>
    metrics
      .snapshot()
      .filter(({ name }) => /breakers_open|charges_buffered/.test(name))
      .map(({ series }) => series.map(({ data }) => data[0]));
  metrics.breakerChanged("old", true, "away");
  metrics.chargesBuffered("old", 5);
  expect(gauges()).toEqual([[1], [5]]);
  metrics.retired("old");
  expect(gauges()).toEqual([[0], [0]]);
});
