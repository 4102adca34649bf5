import { expect, test } from "vitest";
import { EndpointHealth } from "./endpoint-health.ts";

test("a new endpoint is healthy", () => {
  expect(new EndpointHealth()).toMatchObject({ score: 1, latencyMs: 0, consecutiveFailures: 0 });
});

test("one failure makes 0.70 of 1.00, and a success after it 0.79", () => {
  const health = new EndpointHealth();
  health.failed(0);
  expect(health.score).toBeCloseTo(0.7);
  health.responded(true, 1, 0);
  expect(health.score).toBeCloseTo(0.79);
});

test("the latency is a moving average in which the newest response counts 0.3", () => {
  const health = new EndpointHealth();
  health.responded(true, 100, 0);
  expect(health.latencyMs).toBe(100);
  health.responded(true, 200, 0);
  expect(health.latencyMs).toBeCloseTo(130);
});

test("a failed response has a latency and is a failure", () => {
  const health = new EndpointHealth();
  health.responded(false, 40, 5);
  expect(health).toMatchObject({ latencyMs: 40, consecutiveFailures: 1, notedMs: 5 });
});

test("a success ends the consecutive failures", () => {
  const health = new EndpointHealth();
  health.failed(0);
  health.failed(0);
  health.responded(true, 1, 0);
  expect(health.consecutiveFailures).toBe(0);
});

test("past ejections are forgotten when the endpoint shows as 1.00 again", () => {
  const health = new EndpointHealth();
  for (let i = 0; i < 5; i++) health.failed(0);
  health.timesEjected = 3;
  health.responded(true, 1, 0);
  expect(health.timesEjected).toBe(3);
  for (let i = 0; i < 20; i++) health.responded(true, 1, 0);
  expect(health.score.toFixed(2)).toBe("1.00");
  expect(health.timesEjected).toBe(0);
});
