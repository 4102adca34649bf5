import { describe, expect, test } from "vitest";
import { rejectedProxyPolicy } from "./rejected-proxy-policy.ts";
import { errorsOf } from "./testing/errors.ts";
import { acceptedResponses, rejectedResponses } from "./testing/limit-responses.ts";

const policy = (fields: object) => ({
  apiVersion: "gatewayproxy.dev/v1alpha1",
  kind: "ProxyPolicy",
  metadata: { name: "limits" },
  spec: {
    targetRefs: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" }],
    traffic: { rateLimit: { local: [{ requests: 10, unit: "Minutes" }], ...fields } },
  },
});

/** The errors of `rateLimit`, from the field on. */
const errors = (fields: object) =>
  errorsOf(policy(fields)).map((error) => error.replace("spec.traffic.rateLimit.", ""));

describe("a policy may have", () => {
  test.each(acceptedResponses)("%s", (_name, fields) => expect(errors(fields)).toEqual([]));
});

describe("a policy must not have", () => {
  test.each(rejectedResponses)("%s", (_name, fields) => expect(errors(fields)).not.toEqual([]));
});

test.each([
  [
    "headers[0]",
    { headers: ["Ietf2"] },
    'found "Ietf2", accepted is one of "XRateLimit", "Ietf", "OpenAI"; did you mean "Ietf"?',
  ],
  ["headers[1]", { headers: ["Ietf", "Ietf"] }, "Ietf is named twice"],
  ["denied.format", { denied: { format: "Json" } }, 'found "Json", accepted is one of "Text", "Problem", "Provider"'],
  [
    "denied.status",
    { denied: { status: 401 } },
    "found 401, accepted is an integer from 400 to 599, except 401, 405, 407, 408, 421, 425, 426",
  ],
  [
    "denied.headers[0].name",
    { denied: { headers: [{ name: "Retry-After", value: "1" }] } },
    'found "Retry-After", accepted is a header name of 1 to 64 characters, none that the gateway writes itself (connection, keep-alive, proxy-connection, transfer-encoding, upgrade, te, trailer, content-length, content-encoding, host, date, x-request-id, retry-after, x-envoy-ratelimited, ratelimit…, x-ratelimit-…, access-control-…, grpc-…), and none that ends with -bin',
  ],
  [
    "denied.headers[0].value",
    { denied: { headers: [{ name: "x-a", value: "a\nb" }] } },
    "found text, accepted is a header value of 1 to 512 printable ASCII characters, without spaces at its ends",
  ],
  [
    "denied.headers[1].name",
    {
      denied: {
        headers: [
          { name: "X-A", value: "a" },
          { name: "x-a", value: "b" },
        ],
      },
    },
    "header x-a is named twice",
  ],
  [
    "denied.headers[0].name",
    { denied: { format: "Problem", headers: [{ name: "Content-Type", value: "text/html" }] } },
    "content-type is accepted together with format Text only",
  ],
])("the error at %s of %j", (path, fields, message) => {
  expect(errors(fields)).toEqual([`${path}: ${message}`]);
});

test("a policy in Shadow mode with an invalid response does not close its targets, and another one does", () => {
  const shadow = policy({
    local: [{ requests: 1, unit: "Minutes", mode: "Shadow" }],
    denied: { status: 1 },
    headers: 5,
  });
  expect(rejectedProxyPolicy(shadow)).toBeUndefined();
  expect(rejectedProxyPolicy(policy({ denied: { status: 1 } }))).toMatchObject({ isRejected: true });
});
