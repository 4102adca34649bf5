/**
 * HTTPRoutes and GRPCRoutes with what is standard since Gateway API 1.7, which the API server and the parser accept, or
 * both reject.
 */
const routeOf = (kind: string, ...rules: readonly object[]) => ({
  apiVersion: "gateway.networking.k8s.io/v1",
  kind,
  metadata: { name: "chat", namespace: "default" },
  spec: { parentRefs: [{ name: "web" }], rules },
});
const retrying = (retry: object) => routeOf("HTTPRoute", { retry });
const kinds = ["HTTPRoute", "GRPCRoute"];

/** What each manifest has, and the manifest. */
export const acceptedRoutes: readonly (readonly [string, object])[] = [
  ["retry without fields", retrying({})],
  ["retry of codes", retrying({ codes: [400, 503, 599], attempts: 3, backoff: "1m30s" })],
  ["no attempts", retrying({ attempts: 0 })],
  ...kinds.map((kind) => [`a ${kind} with two names`, routeOf(kind, { name: "a" }, { name: "b" }, {})] as const),
];

export const rejectedRoutes: readonly (readonly [string, object])[] = [
  ["fewer attempts than none", retrying({ attempts: -1 })],
  ["a code below 400", retrying({ codes: [399] })],
  ["a code above 599", retrying({ codes: [600] })],
  ["a code that is named twice", retrying({ codes: [503, 503] })],
  ["a backoff without a unit", retrying({ backoff: "10" })],
  ["an unknown field of retry", retrying({ methods: ["GET"] })],
  ...kinds.map((kind) => [`a ${kind} with one name twice`, routeOf(kind, { name: "a" }, { name: "a" })] as const),
];
