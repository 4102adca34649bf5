import fc from "fast-check";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import { covers } from "../route/hostnames.ts";
import { type Claim, findConflicts, findOverlaps } from "./listener-conflicts.ts";

const { resources } = parseManifests([
  {
    path: "a.yaml",
    text: `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: l, port: 80, protocol: HTTP}]}
`,
  },
]);
const [listener] = resources.Gateway.flatMap(({ spec }) => spec.listeners);
if (listener === undefined) throw new Error("no listener");

interface Asked {
  readonly hostname: string | undefined;
  readonly protocol: string;
  readonly port: number;
  readonly addresses: readonly (string | undefined)[];
  readonly rank: number;
}

const claimOf = (asked: Asked, index: number): Claim => ({
  key: `claim ${index}`,
  listener: { ...listener, ...asked },
  addresses: asked.addresses,
  place: "",
  namespace: "default",
  rank: asked.rank,
});

const claims = fc
  .array(
    fc.record({
      hostname: fc.constantFrom(undefined, "a.test", "b.a.test", "*.a.test", "*.test", "*.b.a.test", "other"),
      protocol: fc.constantFrom("HTTP", "HTTPS", "HTTPS", "TCP", "TLS", "UDP", "example.test/own"),
      port: fc.constantFrom(80, 443),
      addresses: fc.subarray([undefined, "127.0.0.1"]),
      rank: fc.nat(3),
    }),
    { maxLength: 12 },
  )
  .map((all) => all.map(claimOf));

const isUdp = ({ listener: { protocol } }: Claim) => protocol === "UDP";

const meet = (a: Claim, b: Claim) =>
  a !== b &&
  isUdp(a) === isUdp(b) &&
  a.listener.port === b.listener.port &&
  a.addresses.some((address) => b.addresses.includes(address));

describe("listeners of one socket", () => {
  test("overlap where they have hosts in common", () => {
    const sharesHosts = (a = "*", b = "*") => a === "*" || b === "*" || covers(a, b) || covers(b, a);
    fc.assert(
      fc.property(claims, (all) => {
        const ofTls = all.filter(({ listener: { protocol } }) => protocol === "HTTPS" || protocol === "TLS");
        const expected = ofTls.filter((a) =>
          ofTls.some((b) => meet(a, b) && sharesHosts(a.listener.hostname, b.listener.hostname)),
        );
        expect([...runToEnd(findOverlaps(all))].sort()).toEqual(expected.map(({ key }) => key).sort());
      }),
      { numRuns: 500 },
    );
  });

  test("lose to winners of a rank before theirs, and the others to each other within a rank", () => {
    const formatOf = ({ listener: { protocol } }: Claim) =>
      ({ HTTP: "plain", HTTPS: "tls", TLS: "tls", TCP: "any", UDP: "any" })[protocol];
    const inConflict = (claim: Claim, other: Claim) =>
      meet(claim, other) &&
      formatOf(claim) !== undefined &&
      formatOf(other) !== undefined &&
      (formatOf(claim) !== formatOf(other) || claim.listener.hostname === other.listener.hostname);
    fc.assert(
      fc.property(claims, (all) => {
        const lost = new Set<Claim>();
        for (const rank of [0, 1, 2, 3]) {
          const own = all.filter((each) => each.rank === rank);
          const winners = all.filter((each) => each.rank < rank && !lost.has(each));
          const contenders = own.filter((a) => !winners.some((b) => inConflict(a, b)));
          const left = contenders.filter((a) => !contenders.some((b) => inConflict(a, b)));
          for (const claim of own) if (!left.includes(claim)) lost.add(claim);
        }
        expect([...runToEnd(findConflicts(all)).keys()].sort()).toEqual([...lost].map(({ key }) => key).sort());
      }),
      { numRuns: 500 },
    );
  });

  test("are thousands in hundreds of sets without quadratic work", () => {
    const many = Array.from({ length: 20_000 }, (_, index) =>
      claimOf(
        { hostname: `h${index}.test`, protocol: "HTTPS", port: 443, addresses: [undefined], rank: index % 500 },
        index,
      ),
    );
    // Of comparisons of all with all it would be minutes.
    expect(runToEnd(findConflicts(many)).size).toBe(0);
    expect(runToEnd(findOverlaps(many)).size).toBe(0);
  });
});
