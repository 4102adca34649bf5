/** Shadow and quota modes, and limits that replace others. */
import { ask, type Case, repeat } from "../case.ts";

/** Cases 48 to 56. */
export const modeCases: readonly Case[] = [
  {
    id: "48",
    requirement: "a rule in shadow mode rejects nothing and shows nothing left",
    domain: "rl",
    calls: [2, 1, 0, 0, 0].map((left) => ask("foo=x,baz=shady").gets(`OK(3,${left}) MINUTE`)),
  },
  {
    id: "49",
    requirement: "with SHADOW_MODE no call is rejected, and statuses tell who would have been",
    domain: "probe",
    settings: { shadowMode: true },
    calls: [ask("zero=a").gets("OK: OVER_LIMIT(0,0) DAY")],
  },
  {
    id: "50",
    requirement: "quotas deny only all together, and metadata names those that allow",
    domain: "rl",
    settings: { dynamicMetadata: true },
    calls: [
      ask("service=service_1", "service=service_2").gets("OK: OK(1,0) MINUTE | OK(2,1) MINUTE", {
        metadata: { service_with_quota: { name: "service_1" } },
      }),
      ask("service=service_1", "service=service_2").gets("OK: OVER_LIMIT(1,0) MINUTE | OK(2,0) MINUTE", {
        metadata: { service_with_quota: { name: "service_2" } },
      }),
      ask("service=service_1", "service=service_2").gets(
        "OVER_LIMIT: OVER_LIMIT(1,0) MINUTE | OVER_LIMIT(2,0) MINUTE",
        {
          metadata: null,
        },
      ),
    ],
  },
  {
    id: "51",
    requirement: "with QUOTA_MODE every descriptor is a quota, also one without a limit",
    domain: "probe",
    settings: { quotaMode: true },
    calls: [
      ask("zero=a").gets("OVER_LIMIT(0,0) DAY"),
      ask("zero=a", "ten=a").gets("OK: OVER_LIMIT(0,0) DAY | OK(10,9) DAY"),
      ask("zero=a", "unknown=a").gets("OK: OVER_LIMIT(0,0) DAY | OK(–)"),
    ],
  },
  {
    id: "52",
    requirement: "a limit denies regardless of quotas, and quotas deny regardless of limits",
    domain: "probe",
    calls: [
      ask("zero=a", "quota=a").gets("OVER_LIMIT: OVER_LIMIT(0,0) DAY | OK(1,0) DAY"),
      ask("ten=a", "quota=a").gets("OVER_LIMIT: OK(10,9) DAY | OVER_LIMIT(1,0) DAY"),
    ],
  },
  {
    id: "53",
    requirement: "a limit that matches takes the place of those it replaces",
    domain: "rl",
    calls: [
      ask("foo=x,bar=banned").gets("OVER_LIMIT(0,0) MINUTE"),
      ...["OK: OK(–) | OK(2,1) MINUTE", "OK: OK(–) | OK(2,0) MINUTE", "OVER_LIMIT: OK(–) | OVER_LIMIT(2,0) MINUTE"].map(
        (response) => ask("foo=x,bar=banned", "source_cluster=proxy,destination_cluster=override").gets(response),
      ),
      ask("foo=x,bar=banned", "source_cluster=proxy,destination_cluster=mock").gets(
        "OVER_LIMIT: OVER_LIMIT(0,0) MINUTE | OK(1,0) MINUTE",
      ),
    ],
  },
  {
    id: "54",
    requirement: "a limit that was replaced has counted nothing",
    domain: "rl",
    calls: [
      ...["OK: OK(–) | OK(2,1) MINUTE", "OK: OK(–) | OK(2,0) MINUTE", "OVER_LIMIT: OK(–) | OVER_LIMIT(2,0) MINUTE"].map(
        (response) => ask("foo=x,bar=bkthomps", "source_cluster=proxy,destination_cluster=bkthomps").gets(response),
      ),
      ask("foo=x,bar=bkthomps").gets("OK(1,0) MINUTE"),
      ask("foo=x,bar=bkthomps").gets("OVER_LIMIT(1,0) MINUTE"),
    ],
  },
  {
    id: "55",
    requirement: "one limit can replace several",
    domain: "rl",
    calls: [
      ...repeat(5, (i) =>
        ask("foo=x,bar=bkthomps", "source_cluster=proxy,destination_cluster=fake", "category=account").gets(
          i < 4 ? `OK: OK(–) | OK(–) | OK(4,${3 - i}) MINUTE` : "OVER_LIMIT: OK(–) | OK(–) | OVER_LIMIT(4,0) MINUTE",
        ),
      ),
      ask("foo=x,bar=bkthomps").gets("OK(1,0) MINUTE"),
      ask("source_cluster=proxy,destination_cluster=fake").gets("OK(2,1) MINUTE"),
    ],
  },
  {
    id: "56",
    requirement: "an unlimited rule stays so when its name is replaced",
    domain: "rl",
    calls: [
      ask("source_cluster=proxy,destination_cluster=free", "source_cluster=proxy,destination_cluster=free_taker").gets(
        "OK: OK(unlimited) | OK(2,1) MINUTE",
      ),
    ],
  },
];
