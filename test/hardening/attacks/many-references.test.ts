/** A tenant has 256 routes with 256 references to backends each. What is kept of a reference is small. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { translateInSteps } from "../../../proxy/src/translate/translate.ts";
import { usedMemory } from "../../support/memory.ts";
import { gateway, gatewayClass, http, read, refsOf, route, service, times } from "../support/tenant-objects.ts";

const routes = 256;
const refs = 256;
const services = 250;
const maxBytesOfReference = 400;

test("65,536 references to backends", async () => {
  const resources = read([
    gatewayClass,
    gateway("web", [http]),
    ...times(services, (at) => service(`s${at}`, 16)),
    ...times(routes, (at) =>
      route(
        `r${at}`,
        refsOf(refs, (ref) => ({ name: `s${(at + ref) % services}`, port: 1 + (ref % 16) })),
      ),
    ),
  ]);
  const before = await usedMemory();
  const { statuses } = runToEnd(translateInSteps(resources, { onlyStatuses: true }));
  expect(statuses.httpRoutes).toHaveLength(routes);
  const bytes = ((await usedMemory()) - before) / (routes * refs);
  expect(bytes).toBeLessThan(maxBytesOfReference);
}, 60_000);
