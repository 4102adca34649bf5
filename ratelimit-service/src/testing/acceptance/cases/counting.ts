/** Counting, and the remaining hits. */
import { ask, type Case, caseStartSeconds, none, repeat } from "../case.ts";

/** Cases 31 to 47, and refunds. */
export const countingCases: readonly Case[] = [
  {
    id: "31",
    requirement: "a limit allows exactly its number and rejects the rest of the window",
    domain: "another",
    calls: [
      ...repeat(20, (i) => ask("key2=a").gets(`OK(20,${19 - i}) MINUTE`)),
      ...repeat(5, () => ask("key2=a").gets("OVER_LIMIT(20,0) MINUTE")),
    ],
  },
  {
    id: "32",
    requirement: "one descriptor over its limit rejects the call; the others go on counting",
    domain: "another",
    calls: repeat(15, (i) =>
      ask("key2=a", "key3=a").gets(
        i < 10
          ? `OK: OK(20,${19 - i}) MINUTE | OK(10,${9 - i}) HOUR`
          : `OVER_LIMIT: OK(20,${19 - i}) MINUTE | OVER_LIMIT(10,0) HOUR`,
      ),
    ),
  },
  {
    id: "33",
    requirement: "with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT the others stop counting",
    domain: "another",
    settings: { stopsAtOverLimit: true },
    calls: repeat(15, (i) =>
      ask("key2=a", "key3=a").gets(
        i < 10
          ? `OK: OK(20,${19 - i}) MINUTE | OK(10,${9 - i}) HOUR`
          : "OVER_LIMIT: OK(20,10) MINUTE | OVER_LIMIT(10,0) HOUR",
      ),
    ),
  },
  {
    id: "34",
    requirement: "a limit per second resets within the second",
    domain: "basic",
    calls: [
      ask("key1=foo").gets("OK(50,49) SECOND", { reset: 1 }),
      ask("key1=foo").gets("OK(50,49) SECOND", { after: 1 }),
    ],
  },
  {
    id: "35",
    requirement: "the time to the reset runs down",
    domain: "another",
    calls: [
      ask("key4=durTest").gets("OK(20,19) DAY", { reset: 84_178 }),
      ask("key4=durTest").gets("OK(20,18) DAY", { after: 2, reset: 84_176 }),
    ],
  },
  {
    id: "36",
    requirement: "hits of several calls add up to the limit",
    domain: "probe",
    calls: [
      ...repeat(3, (i) => ask("ten=a").gets(`OK(10,${9 - i}) DAY`, { hits: 1 })),
      ask("ten=a").gets("OK(10,0) DAY", { hits: 7 }),
      ask("ten=a").gets("OVER_LIMIT(10,0) DAY", { hits: 1 }),
    ],
  },
  {
    id: "37",
    requirement: "a call that crosses the limit is rejected, and all its hits stay counted",
    domain: "probe",
    calls: [ask("ten=a").gets("OVER_LIMIT(10,0) DAY", { hits: 15 }), ask("ten=a").gets("OVER_LIMIT(10,0) DAY")],
  },
  {
    id: "38",
    requirement: "a request without hits counts 1",
    domain: "probe",
    calls: [ask("ten=a").gets("OK(10,9) DAY", { hits: 0 })],
  },
  {
    id: "39",
    requirement: "a descriptor with 0 hits asks without counting, whatever the request says",
    domain: "probe",
    calls: [ask("ten=a #0").gets("OK(10,10) DAY"), ask("ten=a #0").gets("OK(10,10) DAY", { hits: 5 })],
  },
  {
    id: "40",
    requirement: "a descriptor's own hits win over the request's",
    domain: "probe",
    calls: [ask("ten=a #4").gets("OK(10,6) DAY", { hits: 9 })],
  },
  {
    id: "41",
    requirement: "a check of an exactly used-up limit passes, one of an exceeded limit does not",
    domain: "probe",
    calls: [
      ask("ten=a #10").gets("OK(10,0) DAY"),
      ask("ten=a #0").gets("OK(10,0) DAY"),
      ask("ten=a #1").gets("OVER_LIMIT(10,0) DAY"),
      ask("ten=a #0").gets("OVER_LIMIT(10,0) DAY"),
    ],
  },
  {
    id: "41, strict",
    requirement: "with STRICT_ZERO_HIT a check of an exactly used-up limit is over it",
    domain: "probe",
    settings: { strictZeroHit: true },
    calls: [
      ask("ten=a #0").gets("OK(10,10) DAY"),
      ask("ten=a #9").gets("OK(10,1) DAY"),
      ask("ten=a #0").gets("OK(10,1) DAY"),
      ask("ten=a #1").gets("OK(10,0) DAY"),
      ask("ten=a #0").gets("OVER_LIMIT(10,0) DAY"),
      ask("zero=a #0").gets("OVER_LIMIT(0,0) DAY"),
    ],
  },
  {
    id: "42",
    requirement: "a descriptor that stands twice in a call counts twice",
    domain: "probe",
    calls: [ask("ten=a", "ten=a").gets("OK: OK(10,9) DAY | OK(10,8) DAY")],
  },
  {
    id: "43",
    requirement: "a limit of 0 rejects everything and is shown",
    domain: "probe",
    calls: [ask("zero=a").gets("OVER_LIMIT(0,0) DAY")],
  },
  {
    id: "44",
    requirement: "a limit that the call brings wins, in domains that exist",
    domain: "probe",
    calls: [
      ask("unknown=a @2/HOUR").gets("OK(2,1) HOUR"),
      ask("ten=a @42/DAY").gets("OK(42,41) DAY"),
      ask("hello=world @2/HOUR").gets(none, { domain: "foo" }),
      ask("ten=b @0/DAY").gets("OVER_LIMIT(0,0) DAY"),
      ask("ten=a").gets("OK(10,8) DAY"),
    ],
  },
  {
    id: "45",
    requirement: "windows of every unit are aligned to the epoch",
    domain: "units",
    calls: [
      ask("second=a").gets("OK(9,8) SECOND", { reset: 1 }),
      ask("minute=a").gets("OK(9,8) MINUTE", { reset: 58 }),
      ask("hour=a").gets("OK(9,8) HOUR", { reset: 1_378 }),
      ask("day=a").gets("OK(9,8) DAY", { reset: 84_178 }),
      ask("week=a").gets("OK(9,8) WEEK", { reset: 604_800 - (caseStartSeconds % 604_800) }),
      ask("month=a").gets("OK(9,8) MONTH", { reset: 2_592_000 - (caseStartSeconds % 2_592_000) }),
      ask("year=a").gets("OK(9,8) YEAR", { reset: 31_536_000 - (caseStartSeconds % 31_536_000) }),
      ask("half_minute=a").gets("OK(9,8) SECOND", { reset: 28 }),
    ],
  },
  {
    id: "45, next window",
    requirement: "a new window begins with the full limit",
    domain: "units",
    calls: [
      ask("minute=a #9").gets("OK(9,0) MINUTE"),
      ask("minute=a").gets("OVER_LIMIT(9,0) MINUTE", { after: 57, reset: 1 }),
      ask("minute=a").gets("OK(9,8) MINUTE", { after: 1, reset: 60 }),
    ],
  },
  {
    id: "47",
    requirement: "keys and values that read alike when joined share rule and counter",
    domain: "probe",
    calls: [ask("sep=a_b").gets("OK(100,99) DAY"), ask("sep_a=b").gets("OK(100,98) DAY")],
  },
  {
    id: "refund",
    requirement: "hits can be given back, down to 0 and without opening a counter",
    domain: "probe",
    calls: [
      ask("ten=a #-3").gets("OK(10,10) DAY"),
      ask("ten=a #12").gets("OVER_LIMIT(10,0) DAY"),
      ask("ten=a #-1").gets("OK(10,0) DAY"),
      ask("ten=a #-5").gets("OK(10,4) DAY"),
      ask("ten=a #-9").gets("OK(10,10) DAY"),
      ask("ten=a").gets("OK(10,9) DAY"),
    ],
  },
  {
    id: "refund, cached",
    requirement: "a refund and a raised limit are seen through the local cache",
    domain: "probe",
    settings: { overLimitCache: true },
    calls: [
      ask("ten=a #11").gets("OVER_LIMIT(10,0) DAY"),
      ask("ten=a").gets("OVER_LIMIT(10,0) DAY"),
      ask("ten=a @42/DAY").gets("OK(42,30) DAY"),
      ask("ten=a").gets("OVER_LIMIT(10,0) DAY"),
      ask("ten=a #-5").gets("OK(10,3) DAY"),
      ask("ten=a").gets("OK(10,2) DAY"),
    ],
  },
];
