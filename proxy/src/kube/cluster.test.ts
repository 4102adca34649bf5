import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type Cluster, findCluster } from "./cluster.ts";

const inPod = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "6443" };

/** A folder with the files of a service account, as the kubelet mounts it. */
async function serviceAccountFolder(files: Readonly<Record<string, string>> = { "ca.crt": "CA", token: "first\n" }) {
  const folder = await mkdtemp(join(tmpdir(), "gatewayproxy-account-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return { folder, write };
}

async function found(sources: Parameters<typeof findCluster>[0]): Promise<Cluster> {
  const result = await findCluster(sources);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.value;
}

describe("a pod", () => {
  test("uses its own API server, with its token and the certificate authority of its cluster", async () => {
    const { folder } = await serviceAccountFolder();
    const cluster = await found({ env: inPod, serviceAccount: folder });
    expect(cluster.server.href).toBe("https://10.0.0.1:6443/");
    expect(await cluster.credentials()).toEqual({ ca: "CA", headers: { authorization: "Bearer first" } });
  });

  test("uses a new token and a new certificate authority as soon as they are written", async () => {
    const { folder, write } = await serviceAccountFolder();
    const cluster = await found({ env: inPod, serviceAccount: folder });
    await write("token", "second");
    await write("ca.crt", "CA2");
    expect(await cluster.credentials()).toEqual({ ca: "CA2", headers: { authorization: "Bearer second" } });
  });

  test.each([
    ["an IPv6 address", { ...inPod, KUBERNETES_SERVICE_HOST: "fd00::1" }, "https://[fd00::1]:6443/"],
    ["the port of https where none is set", { KUBERNETES_SERVICE_HOST: "10.0.0.1" }, "https://10.0.0.1/"],
  ])("finds its API server by %s", async (_, env, href) => {
    const { folder } = await serviceAccountFolder();
    expect((await found({ env, serviceAccount: folder })).server.href).toBe(href);
  });

  test("without a service account gets an error that names the missing file", async () => {
    const { folder } = await serviceAccountFolder({ "ca.crt": "CA" });
    const result = await findCluster({ env: inPod, serviceAccount: folder });
    if (result.ok) return expect.unreachable();
    expect(result.problems[0]?.message).toContain(`cannot read the service account of this pod in ${folder}`);
    expect(result.problems[0]?.message).toContain("token");
  });
});

describe("KUBECONFIG", () => {
  const kubeconfig = (context: string) => `
apiVersion: v1
kind: Config
current-context: ${context}
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:8001/k8s" } }]
users: [{ name: u, user: { token: secret } }]
contexts: [{ name: x, context: { cluster: c, user: u } }]
`;

  test("takes precedence over the pod's own cluster, and has the credentials of its user", async () => {
    const { folder } = await serviceAccountFolder({ config: kubeconfig("x") });
    // The client library reads it by itself.
    vi.stubEnv("KUBECONFIG", join(folder, "config"));
    onTestFinished(() => void vi.unstubAllEnvs());
    const cluster = await found({ env: { ...inPod, KUBECONFIG: join(folder, "config") } });
    expect(cluster.server.href).toBe("https://127.0.0.1:8001/k8s");
    expect((await cluster.credentials()).headers).toEqual({ Authorization: "Bearer secret" });
  });

  test("that cannot be used is named in the error", async () => {
    const { folder } = await serviceAccountFolder({ config: kubeconfig("missing") });
    // The client library reads it by itself.
    vi.stubEnv("KUBECONFIG", join(folder, "config"));
    onTestFinished(() => void vi.unstubAllEnvs());
    const result = await findCluster({ env: { KUBECONFIG: join(folder, "config") } });
    if (result.ok) return expect.unreachable();
    expect(result.problems[0]?.message).toContain(`KUBECONFIG=${join(folder, "config")}`);
  });
});
