/** TLSRoutes, TCPRoutes and UDPRoutes that the API server and the parser accept, and such that both reject. */
const many = <T>(count: number, item: T): readonly T[] => Array.from({ length: count }, () => item);

const streamRoute = (kind: string, spec: object = {}) => ({
  apiVersion: "gateway.networking.k8s.io/v1",
  kind,
  metadata: { name: "db", namespace: "default" },
  spec: {
    parentRefs: [{ name: "web" }],
    rules: [{ backendRefs: [{ name: "db", port: 5432 }] }],
    ...(kind === "TLSRoute" && { hostnames: ["db.example.com"] }),
    ...spec,
  },
});
const streamKinds = ["TLSRoute", "TCPRoute", "UDPRoute"];

/** What each manifest has, and the manifest. */
export const acceptedStreams: readonly (readonly [string, object])[] = [
  ...streamKinds.map((kind) => [`a ${kind}`, streamRoute(kind)] as const),
  [
    "a named rule with weights",
    streamRoute("TCPRoute", {
      rules: [
        {
          name: "a",
          backendRefs: [
            { name: "a", port: 1, weight: 0 },
            { group: "gatewayproxy.dev", kind: "Backend", name: "b", weight: 1_000_000 },
          ],
        },
      ],
    }),
  ],
  ["a wildcard of a TLSRoute", streamRoute("TLSRoute", { hostnames: ["*.example.com"] })],
];

export const rejectedStreams: readonly (readonly [string, object])[] = [
  ...streamKinds.flatMap((kind) => [
    [`a ${kind} without rules`, streamRoute(kind, { rules: [] })] as const,
    [
      `a ${kind} with 2 rules`,
      streamRoute(kind, { rules: many(2, { backendRefs: [{ name: "db", port: 1 }] }) }),
    ] as const,
    [`a ${kind} without backends`, streamRoute(kind, { rules: [{ backendRefs: [] }] })] as const,
    [
      `a ${kind} with 17 backends`,
      streamRoute(kind, { rules: [{ backendRefs: many(17, { name: "db", port: 1 }) }] }),
    ] as const,
    [`a ${kind} without a port`, streamRoute(kind, { rules: [{ backendRefs: [{ name: "db" }] }] })] as const,
    [
      `a ${kind} with matches`,
      streamRoute(kind, { rules: [{ matches: [], backendRefs: [{ name: "db", port: 1 }] }] }),
    ] as const,
    [
      `a ${kind} with filters`,
      streamRoute(kind, { rules: [{ backendRefs: [{ name: "db", port: 1, filters: [] }] }] }),
    ] as const,
  ]),
  ["a TLSRoute without host names", streamRoute("TLSRoute", { hostnames: [] })],
  ["a TLSRoute of an address", streamRoute("TLSRoute", { hostnames: ["10.0.0.1"] })],
  ["a TLSRoute of a host name in upper case", streamRoute("TLSRoute", { hostnames: ["A.example.com"] })],
  ["a TCPRoute with host names", streamRoute("TCPRoute", { hostnames: ["a.example.com"] })],
];
