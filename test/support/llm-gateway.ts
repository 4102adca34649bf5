/** A gateway with limits in front of the mock LLM, for tests that use it as LLM clients do. */
import { onTestFinished } from "vitest";
import { type MockLlm, startMockLlm } from "../../examples/mock-llm/src/mock-llm.ts";
import {
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "./gateway.ts";

export interface LlmGateway {
  readonly gateway: TestGateway;
  readonly mock: MockLlm;
}

type Provider = "openai" | "openaiCompatible" | "anthropic";

/** @param local entries of the policy on the only route, as flow YAML */
export async function startLlmGateway(provider: Provider, local: readonly string[]): Promise<LlmGateway> {
  const mock = await startMockLlm({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => mock.close());
  return { gateway: await startGatewayTo(provider, mock.port, local), mock };
}

/**
 * The same in front of another server on this machine.
 *
 * @param ai, rule, settings further fields of `spec.ai`, of the rule, and of the provider, as flow YAML.
 */
export function startGatewayTo(
  provider: Provider,
  port: number,
  local: readonly string[],
  ai = "",
  rule = "",
  options: TestGatewayOptions = {},
  settings = "",
): Promise<TestGateway> {
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { ${provider}: { ${settings} } }, host: 127.0.0.1, port: ${port}, ${ai} } }
`;
  const route = routeManifest("chat", [
    `{ ${rule} backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }] }`,
  ]);
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", local);
  return startGateway(manifests(gatewayManifest(), backend, route, policy), options);
}
