import { rootCertificates } from "node:tls";
import { expect, test } from "vitest";
import { clientTls } from "./client-tls.ts";

test("connections share a context if their authorities and client certificates are the same objects", () => {
  const contextOf = (tls: Parameters<typeof clientTls>[1]) => clientTls("10.0.0.1", tls).secureContext;
  const authorities = rootCertificates.slice(0, 2);
  const context = contextOf({ hostname: "a.test", authorities });
  expect(context).toBeDefined();
  expect(contextOf({ hostname: "b.test", authorities })).toBe(context);
  expect(contextOf({ hostname: "a.test", authorities: [...authorities] })).not.toBe(context);
  expect(contextOf({ hostname: "a.test" })).not.toBe(context);
});
