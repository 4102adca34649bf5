/** Bodies of LLM requests that are costly to read, end to end: thousands of members. */
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

async function start(provider: string, ...policies: readonly string[]) {
  const backend = await startBackend((request, response) => {
    request.resume().on("end", () => response.end("{}"));
  });
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: ${provider}, host: 127.0.0.1, port: ${backend.port} } }
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const gateway = await startGateway(manifests(gatewayManifest(), llm, route, ...policies));
  const send = async (body: string) => {
    const response = await fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body });
    return [response.status, await response.text()];
  };
  return { send, backend };
}

const repeated = (member: string): string => `{"stream":true,${`${member},`.repeat(100_000)}"x":0}`;
const rejection = [400, 'request body has a member such as "model" more than 8 times'];

test.each(['"model":0', '"Model":0', '"stream_options":0', '"stream_options":{"include_usage":0}', '"stream":1'])(
  "a body with thousands of %s is rejected before it is edited",
  async (member) => {
    const { send, backend } = await start("{ openai: { model: gpt-cheap } }");
    expect(await send(repeated(member))).toEqual(rejection);
    expect(backend.requests).toHaveLength(0);
    expect(await send('{"stream":true,"model":1,"model":2}')).toEqual([200, "{}"]);
  },
);

test("so is one under a global limit by model", async () => {
  const service = await startScriptedService(() => ({ overallCode: "OK" }));
  const policy = globalPolicy(
    `address: '127.0.0.1:${service.port}', descriptors: [{ entries: [{ name: model, expression: llm.requestModel }] }]`,
  );
  const { send, backend } = await start("{ openai: {} }", policy);
  expect(await send(repeated('"model":0'))).toEqual(rejection);
  expect(await send('{"model":"a","model":"b"}')).toEqual([400, "request body names two models"]);
  expect(service.calls).toHaveLength(0);
  expect(backend.requests).toHaveLength(0);
});

test("a body that arrives in many reads is edited and sent completely", async () => {
  const { send, backend } = await start(
    "{ openai: { model: gpt-cheap } }",
    policyManifest("limits", "kind: HTTPRoute, name: chat", ["{ tokens: 1000, unit: Hours }"]),
  );
  const body = `{"stream":true,"messages":[${"0,".repeat(1_000_000)}0],"model":"gpt-dear"}`;
  expect(await send(body)).toEqual([200, "{}"]);
  const sent = '"gpt-cheap","stream_options":{"include_usage":true}';
  expect(backend.requests[0]?.headers["content-length"]).toBe(String(body.length + sent.length - '"gpt-dear"'.length));
});
