/**
 * Pins the images of others: Node, from which the images are built, and the Redis of the chart. Each reference has a
 * tag, for readers, and a digest, which determines the image.
 *
 * usage: node scripts/pin-images.ts [--check]
 *   requests the current digest of each tag from its registry, and writes changed digests into the files. --check
 *   writes nothing, and ends with status 1 if a digest differs. For another version, change the tag first.
 */
import { createHash } from "node:crypto";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

const repository = join(import.meta.dirname, "..");

/** The files that may refer to images. deploy/install is rendered from the chart. */
const places = ["Dockerfile", "deploy/helm/**/*.yaml", "examples/**/*.yaml", "kind-config.yaml"];

/** Registries and folders of images that are built here, and stages of the Dockerfile. */
const own = /^(?:ghcr\.io\/gatewayproxy\/|localhost\/gateway-proxy\/|\$|scratch$)/;

/** The platforms that a pinned image must support. */
const platforms = ["linux/amd64", "linux/arm64"];

export interface ImageUse {
  /** Path in the repository. */
  readonly file: string;
  readonly reference: string;
}

/** Returns every image of others to which the repository refers, in the order of files and lines. */
export function foreignImages(): readonly ImageUse[] {
  const files = places.flatMap((place) => globSync(join(repository, place))).sort();
  return files.flatMap((path) =>
    imagesIn(readFileSync(path, "utf8")).map((reference) => ({ file: relative(repository, path), reference })),
  );
}

/** Returns the images of others to which a Dockerfile or a manifest refers. */
export function imagesIn(text: string): readonly string[] {
  const stages = new Set([...text.matchAll(/^FROM .* AS (\S+)$/gim)].map((match) => match[1]));
  const named = [...text.matchAll(/^(?:ARG \w*IMAGE=|FROM (?:--\S+ )*|[\s-]*image: ?)["']?([^\s"']+)/gm)];
  return named
    .flatMap((match) => match[1] ?? [])
    .filter((name) => !own.test(name) && !name.startsWith("{") && !stages.has(name));
}

/** The parts of `registry/repository:tag@digest`, all of which a pinned reference has. */
export interface PinnedReference {
  readonly registry: string;
  readonly repository: string;
  readonly tag: string;
  readonly digest: string;
}

/** Parses a pinned reference. Throws an error with the missing part. */
export function parsePinned(reference: string): PinnedReference {
  const match = /^([\w.-]+(?::\d+)?)\/([\w./-]+):([\w.-]+)@(sha256:[0-9a-f]{64})$/.exec(reference);
  const [, registry = "", name = "", tag = "", digest = ""] = match ?? [];
  if (match === null || !/[.:]|^localhost$/.test(registry)) {
    throw new Error(`${reference} is not of the form registry/repository:tag@sha256:<64 hexadecimal digits>`);
  }
  return { registry, repository: name, tag, digest };
}

/** Returns the current digest of a tag. Throws unless it is an index with all supported platforms. */
export async function resolveDigest(image: Omit<PinnedReference, "digest">): Promise<string> {
  const host = image.registry === "docker.io" ? "registry-1.docker.io" : image.registry;
  // Registries on this machine need no TLS, as in docker.
  const scheme = /^(?:localhost|127\.0\.0\.1)(?::|$)/.test(host) ? "http" : "https";
  const url = `${scheme}://${host}/v2/${image.repository}/manifests/${image.tag}`;
  const accept = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json";
  let response = await fetch(url, { headers: { accept } });
  const challenge = response.headers.get("www-authenticate");
  if (response.status === 401 && challenge !== null) {
    const token = await anonymousToken(challenge);
    response = await fetch(url, { headers: { accept, authorization: `Bearer ${token}` } });
  }
  if (!response.ok) throw new Error(`GET ${url} failed with status ${response.status}`);
  const body = Buffer.from(await response.arrayBuffer());
  const missing = platforms.filter((platform) => !platformsOf(body).includes(platform));
  if (missing.length > 0) throw new Error(`${url} has no image for ${missing.join(", ")}`);
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

/**
 * Returns a token for public images, from the server that the registry names (token authentication of distribution).
 */
async function anonymousToken(challenge: string): Promise<string> {
  const parameters = new Map(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  const realm = parameters.get("realm");
  if (realm === undefined) throw new Error(`the registry requires ${challenge}; only tokens are supported`);
  const url = new URL(realm);
  for (const [name, value] of parameters) if (name !== "realm") url.searchParams.set(name, value);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`GET ${url.href} failed with status ${response.status}`);
  const { token, access_token: accessToken } = (await response.json()) as { token?: string; access_token?: string };
  return token ?? accessToken ?? "";
}

/** Returns the platforms of an index of images; empty for a single image. */
function platformsOf(index: Buffer): readonly string[] {
  const { manifests = [] } = JSON.parse(index.toString()) as {
    manifests?: readonly { platform?: { os: string; architecture: string } }[];
  };
  return manifests.flatMap(({ platform }) => (platform === undefined ? [] : `${platform.os}/${platform.architecture}`));
}

async function pin(isCheck: boolean): Promise<boolean> {
  let isCurrent = true;
  for (const { file, reference } of foreignImages()) {
    const pinned = parsePinned(reference);
    const digest = await resolveDigest(pinned);
    if (digest === pinned.digest) {
      console.log(`${file}: ${reference} is current`);
      continue;
    }
    isCurrent = false;
    console.log(`${file}: ${reference} is now ${digest}`);
    if (isCheck) continue;
    const path = join(repository, file);
    writeFileSync(path, readFileSync(path, "utf8").replaceAll(reference, reference.replace(pinned.digest, digest)));
  }
  return isCurrent;
}

if (import.meta.main) {
  const isCheck = process.argv.includes("--check");
  try {
    const isCurrent = await pin(isCheck);
    if (isCheck && !isCurrent) process.exitCode = 1;
    if (!isCheck && !isCurrent) console.log("written; run `npm run generate`, then the tests");
  } catch (error) {
    // The reason of a failed fetch is in its cause.
    const { message, cause } = error as Error;
    console.error(cause instanceof Error ? `${message}: ${cause.message}` : message);
    process.exitCode = 1;
  }
}
