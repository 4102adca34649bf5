/**
 * Acceptance cases that are no row of the table, because no call can show them or the door is what they are about: where
 * their tests are. A test holds this list and the table together complete, and each title where it is said to be.
 */

export interface CaseTest {
  /** Below `ratelimit-service/src`. */
  readonly file: string;
  /** Words of the test's title. */
  readonly title: string;
}

/** By the number of the case. */
export const elsewhere: Readonly<Record<number, CaseTest>> = {
  46: { file: "store/redis/redis-store.test.ts", title: "case 46: keys and their time to live are the reference's" },
  58: { file: "transport/http/service-routes.test.ts", title: "answers %j with 400 and the reason" },
  59: {
    file: "service-errors.test.ts",
    title: "case 59: a call that asks nothing is refused in the reference's words",
  },
  60: { file: "transport/http/rate-limit-json.test.ts", title: "reads every field, as the .proto file writes it" },
  61: { file: "transport/http/service-routes.test.ts", title: "answers %s with %i" },
  62: { file: "stats.test.ts", title: "case 62: a value with a series of its own" },
  63: {
    file: "config/config-file.test.ts",
    title: "case 63: a configuration file is refused with the reference's words",
  },
  64: { file: "config/file-source.test.ts", title: "case 64: is served anew when a file appears, changes and goes" },
  65: { file: "config/config-set.test.ts", title: "case 65: goes on with the others when one file is bad" },
  66: { file: "service-errors.test.ts", title: "case 66: before any configuration was loaded" },
  67: { file: "config/file-source.test.ts", title: "case 67: without RUNTIME_IGNOREDOTFILES is seen twice" },
  68: { file: "stats.test.ts", title: "case 68: near, over, within and from memory" },
  69: { file: "stats.test.ts", title: "case 69: hits near the limit and over it are told apart within a call" },
  70: {
    file: "store/redis/redis-faults.test.ts",
    title: "case 70: fails calls with its text, is counted, and works again",
  },
  71: { file: "transport/grpc/server-tls.test.ts", title: "takes a new certificate up, keeps the old one" },
  72: { file: "transport/grpc/grpc-server.test.ts", title: "of an unknown service is watched too" },
};
