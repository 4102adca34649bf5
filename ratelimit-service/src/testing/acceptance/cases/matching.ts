/** The rule that a descriptor matches. */
import { ask, type Case, none, repeat } from "../case.ts";

/** Cases 1 to 30. */
export const matchingCases: readonly Case[] = [
  {
    id: "1",
    requirement: "an unknown domain limits nothing",
    domain: "foo",
    calls: [ask("hello=world").gets(none)],
  },
  {
    id: "2, 3",
    requirement: "a value that is not configured, or has no limit, is not limited",
    domain: "basic-domain",
    calls: [ask("key1=something").gets(none), ask("key1=value1").gets(none)],
  },
  {
    id: "4, 5",
    requirement: "below a level the exact value wins over the bare key",
    domain: "basic-domain",
    calls: [
      ask("key1=value1,subkey1=something").gets("OK(5,4) SECOND"),
      ask("key1=value1,subkey1=subvalue1").gets("OK(10,9) SECOND"),
    ],
  },
  {
    id: "6, 7, 8",
    requirement: "a bare key takes every value but those configured, of which one may be free",
    domain: "basic-domain",
    calls: [
      ask("key2=something").gets("OK(20,19) MINUTE"),
      ask("key2=value2").gets("OK(30,29) MINUTE"),
      ask("key2=value3").gets(none),
    ],
  },
  {
    id: "9",
    requirement: "a descriptor deeper than the configuration is not limited",
    domain: "basic-domain",
    calls: [ask("key2=value2,subkey=sv").gets(none)],
  },
  {
    id: "10, 11, 12, 13",
    requirement: "a limit holds at its own depth only",
    domain: "basic-domain",
    calls: [
      ask("key5=value5").gets("OK(15,14) DAY"),
      ask("key5=value5,subkey5=subvalue5").gets("OK(25,24) DAY"),
      ask("key5=value5,subkey5=other").gets(none),
      ask("key5=value5,subkey5=subvalue5,deeper=x").gets(none),
    ],
  },
  {
    id: "14",
    requirement: "an unlimited rule says so and counts nothing",
    domain: "basic-domain",
    calls: [ask("key6=x").gets("OK(unlimited)")],
  },
  {
    id: "15",
    requirement: "a limit's name is in the status",
    domain: "basic-domain",
    calls: [ask("key4=foo").gets("OK(1,0) DAY", { name: "key4_rate_limit" })],
  },
  { id: "16", requirement: "keys are case-sensitive", domain: "basic-domain", calls: [ask("KEY2=x").gets(none)] },
  { id: "17", requirement: "no entries, no limit", domain: "basic-domain", calls: [ask("").gets(none)] },
  {
    id: "18, 19",
    requirement: "a trailing wildcard takes what begins like it, a plain value only itself",
    domain: "wild-domain",
    calls: [
      ask("wild=foo1").gets("OK(20,19) MINUTE"),
      ask("wild=foo").gets("OK(20,19) MINUTE"),
      ask("wild=bar").gets(none),
      ask("noWild=foo").gets("OK(20,19) MINUTE"),
      ask("noWild=foo1").gets(none),
    ],
  },
  {
    id: "20",
    requirement: "a wildcard in the middle is tied to both ends",
    domain: "wild-domain",
    calls: [
      ask("midWild=barab").gets("OK(20,19) MINUTE"),
      ask("midWild=barb").gets("OK(20,19) MINUTE"),
      ask("midWild=bab").gets(none),
      ask("midWild=bara").gets(none),
      ask("midWild=xbarb").gets(none),
    ],
  },
  {
    id: "21",
    requirement: "several wildcards take their parts in order",
    domain: "wild-domain",
    calls: [
      ask("multiWild=foo123bar456baz").gets("OK(10,9) MINUTE"),
      ask("multiWild=foobarbaz").gets("OK(10,9) MINUTE"),
      ask("multiWild=foo123baz").gets(none),
      ask("multiWild=fobarbaz").gets(none),
    ],
  },
  {
    id: "22",
    requirement: "wildcards work below the top level",
    domain: "wild-domain",
    calls: [ask("nestedWild=val1,wild=goo9").gets("OK(20,19) MINUTE")],
  },
  {
    id: "23",
    requirement: "each value that a wildcard takes has its own counter",
    domain: "wild-domain",
    calls: [ask("wild=foo1").gets("OK(20,19) MINUTE"), ask("wild=foo2").gets("OK(20,19) MINUTE")],
  },
  {
    id: "24",
    requirement: "with share_threshold all values of a wildcard have one counter",
    domain: "share-domain",
    calls: [ask("files=files/a.pdf").gets("OK(100,99) MINUTE"), ask("files=files/b.csv").gets("OK(100,98) MINUTE")],
  },
  {
    id: "25",
    requirement: "share_threshold works at every level of a descriptor",
    domain: "share-domain",
    calls: [
      ask("files=top/x,files=nested/1").gets("OK(300,299) MINUTE"),
      ask("files=top/y,files=nested/2").gets("OK(300,298) MINUTE"),
    ],
  },
  {
    id: "26",
    requirement: "levels without share_threshold keep their values apart",
    domain: "share-domain",
    calls: [
      ask("path=path/1,file=file/1,type=a").gets("OK(120,119) MINUTE"),
      ask("path=path/2,file=file/1,type=a").gets("OK(120,118) MINUTE"),
      ask("path=path/2,file=file/2,type=a").gets("OK(120,119) MINUTE"),
    ],
  },
  {
    id: "27",
    requirement: "an exact value wins over a shared wildcard",
    domain: "share-domain",
    calls: [
      ask("file=test1").gets("OK(50,49) MINUTE"),
      ask("file=test2").gets("OK(100,99) MINUTE"),
      ask("file=test3").gets("OK(100,98) MINUTE"),
    ],
  },
  {
    id: "28",
    requirement: "a wildcard in the middle can be shared",
    domain: "share-domain",
    calls: [ask("midpath=/api/x/v1").gets("OK(100,99) MINUTE"), ask("midpath=/apiv1").gets("OK(100,98) MINUTE")],
  },
  {
    id: "29",
    requirement: "a shared level above a bare key keeps the key's values apart",
    domain: "share-domain",
    calls: [
      ask("route=api/v1,method=GET").gets("OK(60,59) MINUTE"),
      ask("route=api/v2,method=GET").gets("OK(60,58) MINUTE"),
      ask("route=api/v2,method=POST").gets("OK(60,59) MINUTE"),
    ],
  },
  {
    id: "30",
    requirement: "one value uses up what all share, and only what is shared",
    domain: "share-threshold-test",
    calls: [
      ...repeat(10, (i) => ask("files=files/a.pdf").gets(`OK(10,${9 - i}) HOUR`)),
      ask("files=files/b.csv").gets("OVER_LIMIT(10,0) HOUR"),
      ...repeat(3, (i) => ask(`files_no_share=files_no_share/${i}`).gets("OK(10,9) HOUR")),
    ],
  },
];
