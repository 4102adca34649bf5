import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { attempt, helm, kubectl, list, systemNamespace, tryKubectl } from "./support/cluster.ts";

const repository = join(import.meta.dirname, "../..");
const chart = join(repository, "deploy/helm/gateway-proxy");
const everything = join(import.meta.dirname, "testdata/everything.values.yaml");

function template(...args: readonly string[]): Promise<string> {
  return helm(["template", "gateway-proxy", chart, "--namespace", systemNamespace, ...args]);
}

interface PodTemplate {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly securityContext: object;
        readonly containers: readonly { readonly name: string; readonly securityContext: object }[];
      };
    };
  };
}

describe("the chart", () => {
  test("passes the lint of helm", async () => {
    expect(await helm(["lint", chart, "--strict", "--values", everything])).toContain("0 chart(s) failed");
  });

  test.each([
    { name: "the defaults", args: [] },
    {
      name: "a rate limit service beside each proxy",
      args: ["--set", "rateLimitService.enabled=true,rateLimitService.mode=Sidecar,redis.enabled=true"],
    },
    {
      name: "everything except objects of the Prometheus operator",
      args: ["--values", everything, "--set", "monitoring.serviceMonitor.enabled=false"],
    },
  ])("renders objects of $name that the API server accepts", async ({ args }) => {
    const rendered = await template(...args);
    const dryRun = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"];
    const applied = (await kubectl(dryRun, rendered)).trim().split("\n");
    const objects = parseAllDocuments(rendered).filter((document) => document.contents !== null);
    expect(applied).toHaveLength(objects.length);
  });

  test("puts the rate limit service beside each proxy, and allows only its address", async () => {
    const own = { spec: { replicas: 3, template: { spec: { volumes: [{ name: "own", emptyDir: {} }] } } } };
    const rendered = await template(
      ...["--set", "rateLimitService.enabled=true,rateLimitService.mode=Sidecar,redis.enabled=true"],
      ...["--set-json", 'rateLimitService.config={"team.yaml":{"domain":"team"}}'],
      ...["--set-json", `gatewayClass.parameters.deployment=${JSON.stringify(own)}`],
    );
    expect(rendered).toContain('{ name: PROXY_ALLOW_BACKEND_ADDRESS, value: "127.0.0.1:15081" }');
    expect(rendered).not.toContain("name: gateway-proxy-ratelimit-service");
    const classParameters = parseAllDocuments(rendered)
      .map((document) => document.toJS() as { metadata?: { name: string }; data?: { deployment: string } } | null)
      .find((each) => each?.metadata?.name === "gateway-proxy-gatewayclass" && each.data !== undefined);
    expect(parse(classParameters?.data?.deployment ?? "")).toMatchObject({
      spec: {
        replicas: 3,
        template: {
          metadata: { annotations: { "limits.gatewayproxy.dev/team.yaml": "domain: team\n" } },
          spec: {
            initContainers: [{ name: "ratelimit-service", restartPolicy: "Always" }],
            volumes: [{ name: "limits" }, { name: "own" }],
          },
        },
      },
    });
  });

  test("gives its Redis the password with which the rate limit service connects", async () => {
    const values = "rateLimitService.enabled=true,redis.enabled=true";
    const secret = "rateLimitService.redis.authSecret.name=counters";
    const rendered = await template("--set", `${values},${secret}`);
    expect(rendered).toContain("--requirepass, $(REDIS_PASSWORD)]");
    const reference = "valueFrom: { secretKeyRef: { name: counters, key: auth } }";
    for (const name of ["REDIS_PASSWORD", "REDIS_AUTH"]) {
      expect(rendered.replaceAll(/\s+/g, " ")).toContain(`- name: ${name} ${reference}`);
    }
    expect(await template("--set", values)).not.toContain("requirepass");
  });

  test("hands on which clients may read metrics, also those of the proxies", async () => {
    const peers = '[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]';
    const rendered = await template("--set-json", `networkPolicy.metricsFrom=${peers}`);
    expect(rendered).toContain(`{ name: PROXY_METRICS_FROM, value: ${JSON.stringify(peers)} }`);
    expect(await template()).not.toContain("PROXY_METRICS_FROM");
  });

  test("gives each proxy of the class a volume, with the parameters of the class over it", async () => {
    const own = "spec: {storageClassName: slow}";
    const rendered = await template(
      ...["--set", "counters.persistence.enabled=true,counters.persistence.size=5Gi"],
      ...["--set-string", `gatewayClass.parameters.persistentVolumeClaim=${own}`],
    );
    const data = parseAllDocuments(rendered)
      .map((document) => document.toJS() as { kind?: string; data?: Readonly<Record<string, string>> } | null)
      .find((each) => each?.kind === "ConfigMap" && each.data?.["persistentVolumeClaim"] !== undefined)?.data;
    expect(parse(data?.["persistentVolumeClaim"] ?? "")).toEqual({
      spec: { storageClassName: "slow", resources: { requests: { storage: "5Gi" } } },
    });
    expect(parse(data?.["statefulSet"] ?? "")).toEqual({
      spec: { persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Retain" } },
    });
  });

  test.each([
    ["counters.persistence.enabled", "counters.persistence.enabled=true"],
    ["rateLimitService.mode Sidecar", "rateLimitService.enabled=true,rateLimitService.mode=Sidecar"],
  ])("rejects %s without a class, whose parameters have it", async (value, set) => {
    await expect(template("--set", `${set},gatewayClass.create=false`)).rejects.toThrow(
      `${value} needs gatewayClass.create: true`,
    );
  });

  test("renders pods that meet the Pod Security Standard restricted", async () => {
    const rendered = parseAllDocuments(await template("--values", everything));
    // Any YAML; checked below.
    const documents = rendered.map((document) => document.toJS() as unknown);
    const pods = documents.filter(
      (each): each is PodTemplate =>
        typeof each === "object" &&
        each !== null &&
        "spec" in each &&
        JSON.stringify(each).includes('"containers"') &&
        !JSON.stringify(each).includes("CustomResourceDefinition"),
    );
    expect(pods.length).toBeGreaterThan(2);
    for (const { spec } of pods) {
      expect(spec.template.spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      for (const { securityContext } of spec.template.spec.containers) {
        expect(securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    }
  });

  test.each([
    { name: "an unknown value", set: "controler.replicas=3", says: "controler" },
    { name: "an invalid number of replicas", set: "controller.replicas=many", says: "replicas" },
    { name: "an unknown pull policy", set: "image.pullPolicy=Sometimes", says: "pullPolicy" },
    { name: "an unknown failure mode", set: "rateLimitService.failureMode=closed", says: "failureMode" },
    {
      name: "a disruption budget that permits no eviction",
      set: "controller.podDisruptionBudget.minAvailable=2",
      says: "controller.podDisruptionBudget.minAvailable is 2 and must be less than controller.replicas, 2",
    },
    { name: "limits without a domain", set: "rateLimitService.config.a\\.yaml.descriptors=null", says: "domain" },
  ])("rejects $name, and says where", async ({ set, says }) => {
    const { code, stderr } = await attempt("helm", ["template", "gateway-proxy", chart, "--set", set]);
    expect(code).not.toBe(0);
    expect(stderr).toContain(says);
  });
});

describe("the installation", () => {
  test("runs all pods where the Pod Security Standard restricted is enforced", async () => {
    const [namespace] = await list("namespaces", "-l", `kubernetes.io/metadata.name=${systemNamespace}`);
    expect(namespace?.metadata.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "restricted" });
    const deployments = await list("deployments", "-n", systemNamespace);
    expect(deployments.map(({ metadata }) => metadata.name).sort()).toEqual([
      "gateway-proxy-controller",
      "gateway-proxy-ratelimit-service",
      "gateway-proxy-redis",
    ]);
    expect(deployments.filter(({ spec, status }) => spec?.["replicas"] !== status?.readyReplicas)).toEqual([]);
  });

  test("rejects a pod that requests more", async () => {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "curious", namespace: systemNamespace },
      spec: { hostNetwork: true, containers: [{ name: "shell", image: "local/none:1" }] },
    };
    const { code, stderr } = await tryKubectl(["create", "--dry-run=server", "-f", "-"], JSON.stringify(pod));
    expect(code).not.toBe(0);
    expect(stderr).toContain('violates PodSecurity "restricted:latest"');
  });

  test("equals the installation by kustomize", async () => {
    const dryRun = [
      "apply",
      "--server-side",
      "--force-conflicts",
      "--dry-run=server",
      "-k",
      join(repository, "deploy"),
    ];
    const applied = await kubectl(dryRun);
    expect(applied).toContain("deployment.apps/gateway-proxy-controller serverside-applied");
    expect(applied).toContain(
      "customresourcedefinition.apiextensions.k8s.io/proxypolicies.gatewayproxy.dev serverside-applied",
    );
  });
});
