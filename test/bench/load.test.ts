import { describe, expect, test } from "vitest";
import { parseH2load, parseWrk } from "./load.ts";

describe("wrk", () => {
  test("is read in whole requests, seconds and milliseconds", () => {
    const output = "Running 2s test\n  2 threads\nresult 40000 2000000 2650 4060 9100 0 0\n";
    expect(parseWrk(output)).toEqual({ requests: 40_000, seconds: 2, p50Ms: 2.65, p99Ms: 4.06, p999Ms: 9.1 });
  });

  test.each([
    { fault: "a response other than 2xx", line: "result 40000 2000000 2650 4060 9100 3 0" },
    { fault: "a broken connection", line: "result 40000 2000000 2650 4060 9100 0 1" },
    { fault: "no request at all", line: "result 0 2000000 0 0 0 0 0" },
    { fault: "no result line", line: "unable to connect" },
  ])("ends the run at $fault", ({ line }) => expect(() => parseWrk(line)).toThrow("wrk got"));
});

describe("h2load", () => {
  const summary = (failed: number, codes: string): string =>
    `requests: 3 total, 3 started, 3 done, 3 succeeded, ${failed} failed, 0 errored, 0 timeout\nstatus codes: ${codes}\n`;
  const log = "1700000000000000\t200\t1000\n1700000000001000\t200\t3000\n1700000000002000\t200\t2000\n";

  test("is read from its summary and its log of requests", () => {
    const result = parseH2load(summary(0, "3 2xx, 0 3xx, 0 4xx, 0 5xx"), log, 2);
    expect(result).toEqual({ requests: 3, seconds: 2, p50Ms: 2, p99Ms: 2.98, p999Ms: 2.998 });
  });

  test.each([
    { fault: "a response other than 2xx", output: summary(0, "2 2xx, 0 3xx, 1 4xx, 0 5xx") },
    { fault: "a failed request", output: summary(1, "3 2xx, 0 3xx, 0 4xx, 0 5xx") },
    { fault: "no summary", output: "could not connect" },
  ])("ends the run at $fault", ({ output }) => expect(() => parseH2load(output, log, 2)).toThrow("h2load got"));
});
