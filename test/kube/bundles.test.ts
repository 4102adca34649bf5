/**
 * Clusters with CRDs of the Gateway API from 1.1 to 1.7, whose schemas differ. The API server rejects a server-side
 * apply of a status with a field that the schema does not have.
 */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { supportedFeatures } from "../../proxy/src/controller/supported-features.ts";
import { gatewayApiBundles, gatewayApiCrds } from "../rig/binaries.ts";
import { startControlPlane } from "../rig/control-plane.ts";
import { applyDefinitions } from "../rig/definitions.ts";
import { clusterOf, describeCluster, eventually } from "./support/cluster.ts";
import { kubeconfigOf } from "./support/accounts.ts";
import { startController } from "./support/controller-process.ts";

const deploy = join(import.meta.dirname, "..", "..", "deploy");
const system = "gateway-proxy-system";

const objects = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway-proxy}
spec: {controllerName: gatewayproxy.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: tenant}
spec: {gatewayClassName: gateway-proxy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: tenant}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: api, port: 80}]}]}
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: limits, namespace: tenant}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat}]
  traffic: {rateLimit: {local: [{requests: 10, unit: Minutes}]}}
`;

/** The features that the definitions of a version do not permit. Before 1.4, the status has no field for features. */
const missingFeatures: Readonly<Record<string, readonly string[]>> = {
  "v1.4": [
    ...["GatewayBackendClientCertificate", "GatewayFrontendClientCertificateValidation", "HTTPRouteCORS"],
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    ...["HTTPRoute303RedirectStatusCode", "HTTPRoute307RedirectStatusCode", "HTTPRoute308RedirectStatusCode"],
    ...["HTTPRouteRetryCodes", "HTTPRouteRetryConnectionError", "ListenerSet"],
    ...["TCPRoute", "TLSRoute", "TLSRouteModeMixed", "TLSRouteModeTerminate", "UDPRoute"],
  ],
  "v1.5": ["HTTPRouteRetryCodes", "HTTPRouteRetryConnectionError", "TCPRoute", "UDPRoute"],
  "v1.6": ["HTTPRouteRetryCodes", "HTTPRouteRetryConnectionError"],
  "v1.7": [],
};

/**
 * A control plane with other definitions of the Gateway API, until the end of the test.
 *
 * @param folder of the definitions.
 */
async function startWith(folder: string) {
  const plane = await startControlPlane();
  onTestFinished(() => plane.stop());
  await applyDefinitions((args) => plane.kubectl(args), [folder, join(deploy, "crds")]);
  for (const namespace of [system, "tenant"]) await plane.kubectl(["create", "namespace", namespace]);
  await plane.kubectl(["apply", "--server-side", "-f", join(deploy, "rbac")]);
  const control = async () => {
    const kubeconfig = await kubeconfigOf(plane, system, "gateway-proxy-controller");
    const controller = await startController({ kubeconfig, namespace: system });
    onTestFinished(() => controller.stop());
    return controller;
  };
  return { plane, cluster: clusterOf(plane.kubeconfig), control };
}

const isTrue = (type: string) => expect.objectContaining({ type, status: "True" }) as unknown;

describeCluster("with another bundle of the Gateway API", () => {
  const bundles = gatewayApiBundles();

  test("the rig has bundles", () => {
    expect([...bundles.keys()].map((version) => version.replace(/\.\d+$/, ""))).toEqual([
      "v1.1",
      "v1.2",
      "v1.3",
      "v1.4",
      "v1.5",
      "v1.6",
      "v1.7",
    ]);
  });

  test.each([...bundles])(
    "%s: every object gets its status, and no write fails",
    { timeout: 120_000 },
    async (version, folder) => {
      const { cluster, control } = await startWith(folder);
      await cluster.apply(objects);
      const controller = await control();
      const { status } = await cluster.becomes("gatewayclass/gateway-proxy", "", {
        status: { conditions: expect.arrayContaining([isTrue("Accepted"), isTrue("SupportedVersion")]) as unknown },
      });
      const supported = (status as { conditions: readonly { type: string; message: string }[] }).conditions.find(
        ({ type }) => type === "SupportedVersion",
      );
      expect(supported?.message).toContain(version);
      const { supportedFeatures: claimed } = status as { supportedFeatures?: readonly { readonly name: string }[] };
      const missing = missingFeatures[version.replace(/\.\d+$/, "")];
      expect(claimed?.map(({ name }) => name)).toEqual(
        missing && supportedFeatures.filter((name) => !missing.includes(name)),
      );
      const accepted = expect.arrayContaining([isTrue("Accepted")]) as unknown;
      await cluster.becomes("gateway/web", "tenant", {
        status: { conditions: accepted, listeners: [{ name: "http", attachedRoutes: 1, conditions: accepted }] },
      });
      await cluster.becomes("httproute/chat", "tenant", { status: { parents: [{ conditions: accepted }] } });
      await cluster.becomes("proxypolicy/limits", "tenant", { status: { ancestors: [{ conditions: accepted }] } });
      expect(controller.log.filter(({ msg }) => String(msg).includes("cannot"))).toEqual([]);
    },
  );

  test("experimental: a listener whose clients must be authenticated by another server is not served without", {
    timeout: 120_000,
  }, async () => {
    const { cluster, control } = await startWith(gatewayApiCrds("experimental"));
    const externalAuth = "{protocol: HTTP, http: {path: /auth}, backendRef: {name: auth, port: 80}}";
    const filters = `{requests: [{type: ExternalAuth, externalAuth: ${externalAuth}}]}`;
    await cluster.apply(objects.replace("protocol: HTTP}", `protocol: HTTP, filters: ${filters}}`));
    await control();
    const { status } = await cluster.becomes("gateway/web", "tenant", {
      status: { conditions: expect.arrayContaining([expect.objectContaining({ reason: "Invalid" })]) as unknown },
    });
    expect(JSON.stringify(status)).toContain('unknown field \\"filters\\"');
  });

  test("a Gateway whose client certificates are dropped by an older bundle is not served without", {
    timeout: 180_000,
  }, async () => {
    const folderOf = (minor: string) => [...bundles].find(([version]) => version.startsWith(minor))?.[1] ?? "";
    const { plane, cluster, control } = await startWith(folderOf("v1.7"));
    const frontend =
      "tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}}}";
    const manifests = objects.replace("listeners:", `${frontend}, listeners:`);
    await cluster.apply(manifests);
    const apply = (minor: string) =>
      plane.kubectl(["apply", "--server-side", "--force-conflicts", "-f", folderOf(minor)]);
    // The admission policy of the bundle permits no older one, for a few seconds after it is deleted, too.
    await plane.kubectl(["delete", "validatingadmissionpolicybindings", "--all"]);
    await eventually(
      () => apply("v1.4"),
      () => true,
      60_000,
    );
    await eventually(
      () => cluster.get("gateway/web", "tenant"),
      ({ spec }) => !JSON.stringify(spec).includes("frontend"),
      60_000,
    );
    const isRejected = {
      status: {
        conditions: expect.arrayContaining([
          expect.objectContaining({
            ...{ type: "Accepted", status: "False", reason: "Invalid" },
            message: expect.stringContaining('spec.tls.frontend: "kubectl" has set this field') as unknown,
          }),
        ]) as unknown,
      },
    };
    const first = await control();
    await cluster.becomes("gateway/web", "tenant", isRejected);
    await first.stop();

    // The status that was written does not hide it, and neither does the newer bundle.
    await apply("v1.7");
    await plane.kubectl(["annotate", "gateway/web", "--namespace", "tenant", "seen=true"]);
    await control();
    await cluster.becomes("gateway/web", "tenant", isRejected);
    await cluster.apply(manifests);
    await cluster.becomes("gateway/web", "tenant", {
      status: { conditions: expect.arrayContaining([isTrue("Accepted")]) as unknown },
    });
  });
});
