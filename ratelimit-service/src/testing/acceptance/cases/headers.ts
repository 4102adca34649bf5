/** Response headers. */
import { ask, type Case, none, repeat } from "../case.ts";

/** Cases 57 and 73. */
export const headerCases: readonly Case[] = [
  {
    id: "57",
    requirement: "the reference's headers are three plain numbers",
    domain: "probe",
    settings: { headers: "ratelimit" },
    calls: [
      ask("ten_minutely=a").gets("OVER_LIMIT(10,0) MINUTE", {
        hits: 11,
        headers: ["RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 58"],
      }),
      ask("unknown=a").gets(none, { headers: [] }),
    ],
  },
  {
    id: "57, several",
    requirement: "of several limits the one with the least left is shown, and one that is over before all",
    domain: "probe",
    settings: { headers: "ratelimit" },
    calls: [
      ask("ten_minutely=b", "five_minutely=b").gets("OK: OK(10,9) MINUTE | OK(5,4) MINUTE", {
        headers: ["RateLimit-Limit: 5", "RateLimit-Remaining: 4", "RateLimit-Reset: 58"],
      }),
      ask("ten_minutely=b #10", "five_minutely=b").gets("OVER_LIMIT: OVER_LIMIT(10,0) MINUTE | OK(5,3) MINUTE", {
        headers: ["RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 58"],
      }),
    ],
  },
  {
    id: "73",
    requirement: "the eleventh request of a minute has Envoy's headers",
    domain: "probe",
    settings: { headers: "envoy" },
    calls: [
      ...repeat(10, (i) =>
        ask("remote_address=10.0.0.1").gets(`OK(10,${9 - i}) MINUTE`, {
          headers: ["x-ratelimit-limit: 10, 10;w=60", `x-ratelimit-remaining: ${9 - i}`, "x-ratelimit-reset: 58"],
        }),
      ),
      ask("remote_address=10.0.0.1").gets("OVER_LIMIT(10,0) MINUTE", {
        headers: [
          "x-envoy-ratelimited: true",
          "x-ratelimit-limit: 10, 10;w=60",
          "x-ratelimit-remaining: 0",
          "x-ratelimit-reset: 58",
        ],
      }),
    ],
  },
  {
    id: "73, several",
    requirement: "every limit of the call stands in the header, with its name",
    domain: "basic-domain",
    settings: { headers: "envoy" },
    calls: [
      ask("key2=a", "key4=a").gets("OK: OK(20,19) MINUTE | OK(1,0) DAY", {
        headers: [
          'x-ratelimit-limit: 1, 20;w=60, 1;w=86400;name="key4_rate_limit"',
          "x-ratelimit-remaining: 0",
          "x-ratelimit-reset: 84178",
        ],
      }),
    ],
  },
];
