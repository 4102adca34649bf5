import { expect, test } from "vitest";
import { clientTls } from "./client-tls.ts";

test("connections with the same settings share a context", () => {
  const tls = { hostname: "a.test" };
  const { secureContext } = clientTls("10.0.0.1", tls);
  expect(secureContext).toBeDefined();
  expect(clientTls("10.0.0.2", tls).secureContext).toBe(secureContext);
  expect(clientTls("10.0.0.1", { ...tls }).secureContext).not.toBe(secureContext);
});
