/** Parts of a response of `GET /limits`, for tests of its views. */

/** A token counter in Shadow mode, above its limit. @param client the value of its key. */
export const shadowCounter = (client: string) => ({
  policy: "default/chat-limits",
  entry: 1,
  target: "HTTPRoute/default/chat",
  source: "local",
  counts: "tokens",
  unit: "Hours",
  mode: "Shadow",
  key: { text: client, isSecret: false },
  limit: 1_000,
  used: 1_200,
  remaining: 0,
  resetSeconds: 1_800,
});

/** A rate limit service that has been unavailable for two minutes. */
export const absentService = {
  service: "Service/default/ratelimit:8081",
  breaker: "open",
  openOn: 1,
  workers: 2,
  since: "2026-11-21T09:58:12.402Z",
  cause: "connect ECONNREFUSED",
  lastError: { message: "connect ECONNREFUSED", at: "2026-11-21T09:59:59.730Z" },
  failuresInARow: 6,
  chargesBuffered: 4,
  denialsCached: 12,
  limitsLearned: 3,
};
