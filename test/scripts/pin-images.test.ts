import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { resolveDigest } from "../../scripts/pin-images.ts";

/** A registry on a free port; returns its `host:port`. */
async function startRegistry(respond: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(respond);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // A listening TCP server has an address with a port.
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const indexOf = (...platforms: readonly (readonly [string, string])[]): string =>
  JSON.stringify({ manifests: platforms.map(([os, architecture]) => ({ platform: { os, architecture } })) });
const index = indexOf(["linux", "amd64"], ["unknown", "unknown"], ["linux", "arm64"]);
const image = { repository: "valkey/valkey", tag: "8.1.10-alpine" };

test("the digest is that of the bytes that the registry sends, whatever its digest header says", async () => {
  const registry = await startRegistry((request, response) => {
    expect(request.url).toBe("/v2/valkey/valkey/manifests/8.1.10-alpine");
    response.setHeader("docker-content-digest", `sha256:${"0".repeat(64)}`).end(index);
  });
  const digest = createHash("sha256").update(index).digest("hex");
  expect(await resolveDigest({ registry, ...image })).toBe(`sha256:${digest}`);
});

test("a registry that requires a token gets the one of its token server", async () => {
  const registry = await startRegistry((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://registry");
    if (pathname === "/token") {
      response.end(JSON.stringify({ token: `for ${searchParams.get("service")} ${searchParams.get("scope")}` }));
    } else if (request.headers.authorization === "Bearer for registry.test repository:valkey/valkey:pull") {
      response.end(index);
    } else {
      const realm = `http://${request.headers.host}/token`;
      const challenge = `Bearer realm="${realm}",service="registry.test",scope="repository:valkey/valkey:pull"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    }
  });
  expect(await resolveDigest({ registry, ...image })).toMatch(/^sha256:/);
});

test("an image for only one platform is rejected", async () => {
  const registry = await startRegistry((_request, response) => response.end(indexOf(["linux", "amd64"])));
  await expect(resolveDigest({ registry, ...image })).rejects.toThrow("has no image for linux/arm64");
});

test("a tag that does not exist is reported with its address", async () => {
  const registry = await startRegistry((_request, response) => response.writeHead(404).end());
  await expect(resolveDigest({ registry, ...image })).rejects.toThrow(
    `GET http://${registry}/v2/valkey/valkey/manifests/8.1.10-alpine failed with status 404`,
  );
});
