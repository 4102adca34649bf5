/**
 * The acceptance cases that are not in the table, because a call cannot show them or because they are about the
 * transport, with the place of their tests. A test checks that this list and the table are complete, and that each
 * title exists.
 */

export interface CaseTest {
  /** Path below `ratelimit-service/src`. */
  readonly file: string;
  /** Part of the test's title. */
  readonly title: string;
}

/** By the number of the case. */
export const casesTestedElsewhere: Readonly<Record<number, CaseTest>> = {
  46: { file: "store/redis/redis-store.test.ts", title: "case 46: keys and their time to live are the reference's" },
  58: { file: "transport/http/service-routes.test.ts", title: "rejects %j with 400 and the reason" },
  59: {
    file: "service-errors.test.ts",
    title: "case 59: a call that asks nothing is rejected in the reference's words",
  },
  60: { file: "transport/http/rate-limit-json.test.ts", title: "reads every field, as the .proto file writes it" },
  61: { file: "transport/http/service-routes.test.ts", title: "returns %s with %i" },
  62: { file: "stats.test.ts", title: "case 62: a value with a series of its own" },
  63: {
    file: "config/config-file.test.ts",
    title: "case 63: a configuration file is rejected with the reference's words",
  },
  64: { file: "config/file-source.test.ts", title: "case 64: is served again when a file appears, changes and goes" },
  65: { file: "config/config-set.test.ts", title: "case 65: goes on with the others when one file is bad" },
  66: { file: "service-errors.test.ts", title: "case 66: before any configuration was loaded" },
  67: { file: "config/file-source.test.ts", title: "case 67: without RUNTIME_IGNOREDOTFILES is seen twice" },
  68: { file: "stats.test.ts", title: "case 68: near, over, within and from memory" },
  69: { file: "stats.test.ts", title: "case 69: hits near the limit and over it are distinguished within a call" },
  70: {
    file: "store/redis/redis-faults.test.ts",
    title: "case 70: fails calls with its text, is counted, and works again",
  },
  71: { file: "transport/grpc/server-tls.test.ts", title: "takes a new certificate up, keeps the old one" },
  72: { file: "transport/grpc/grpc-server.test.ts", title: "of an unknown service is watched too" },
};
