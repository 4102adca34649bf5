/**
 * Writes a software bill of materials for each image, in CycloneDX's JSON: the packages of package-lock.json that the
 * image's programs need, Node, and the Debian packages of the libraries of Node. The same input gives the same bytes.
 * `npm sbom` is not used, because it leaves out packages that are also development dependencies of the root.
 *
 * usage: node scripts/sbom.ts [--dpkg FOLDER] FOLDER writes FOLDER/IMAGE.cdx.json. --dpkg names a folder with one file
 *   of `dpkg-query --status` per package. The version of Node is that of the process; in the Dockerfile this is the one
 *   that goes into the image. SOURCE_DATE_EPOCH, in seconds, becomes the timestamp; without it there is none.
 */
import { createHash } from "node:crypto";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

/** The workspaces whose code and production dependencies are in each image. */
export const imageWorkspaces = {
  // The page of admin-ui is in the image as a bundle with its dependencies.
  proxy: ["runtime", "http", "grpc", "protos", "admin-api", "admin-ui", "proxy"],
  "ratelimit-service": ["runtime", "http", "grpc", "protos", "ratelimit-service"],
  "mock-llm": ["examples/mock-llm"],
} as const;

export type Image = keyof typeof imageWorkspaces;

/** The used part of an npm lock file, version 3. */
export interface LockFile {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

interface LockedPackage {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  /** For a link, the folder of the workspace. */
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** The used part of a component of CycloneDX 1.6. */
export interface Component {
  readonly type: "application" | "library" | "platform";
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly cpe?: string;
  readonly licenses?: readonly ({ readonly expression: string } | { readonly license: { readonly name: string } })[];
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

export interface Bom {
  readonly $schema: string;
  readonly bomFormat: "CycloneDX";
  readonly specVersion: "1.6";
  readonly serialNumber: string;
  readonly version: 1;
  readonly metadata: { readonly timestamp?: string; readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/** The content of an image other than packages of npm. */
export interface Platform {
  /** The version of Node, without `v`. */
  readonly node: string;
  /** Records of dpkg, each as `dpkg-query --status` prints it. */
  readonly debianPackages: readonly string[];
  /** Milliseconds since the epoch. */
  readonly timestamp?: number;
}

/** Returns the bill of materials of one image. */
export function bomOf(image: Image, lock: LockFile, platform: Platform): Bom {
  const workspaces: readonly string[] = imageWorkspaces[image];
  const { components, dependencies } = packagesOf(lock, workspaces);
  const node: Component = {
    type: "platform",
    "bom-ref": `pkg:generic/node@${platform.node}`,
    name: "node",
    version: platform.node,
    purl: `pkg:generic/node@${platform.node}`,
    cpe: `cpe:2.3:a:nodejs:node.js:${platform.node}:*:*:*:*:*:*:*`,
  };
  const debian = platform.debianPackages.map(debianComponent);
  const version = lock.packages[""]?.version ?? "0.0.0";
  const root: Component = { type: "application", "bom-ref": `image:${image}@${version}`, name: image, version };
  const timestamp = platform.timestamp === undefined ? {} : { timestamp: new Date(platform.timestamp).toISOString() };
  const content = {
    metadata: { ...timestamp, component: root },
    components: sorted([...components, node, ...debian]),
    dependencies: [
      { ref: root["bom-ref"], dependsOn: [...workspaces.map((path) => refOf(lock, path)), node["bom-ref"]].sort() },
      ...dependencies,
      { ref: node["bom-ref"], dependsOn: debian.map((each) => each["bom-ref"]).sort() },
    ],
  };
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify(content))}`,
    version: 1,
    ...content,
  };
}

/** Returns the packages that npm installs in production for some workspaces, and the dependencies of each. */
function packagesOf(lock: LockFile, workspaces: readonly string[]): Pick<Bom, "components" | "dependencies"> {
  const components = new Map<string, Component>();
  const edges = new Map<string, Set<string>>();
  const paths = new Set(workspaces);
  for (const path of paths) {
    const component = componentOf(lock, path);
    const ref = component["bom-ref"];
    components.set(ref, component);
    // The same version may be installed in several places, with different versions of its dependencies.
    const dependsOn = edges.get(ref) ?? new Set();
    edges.set(ref, dependsOn);
    for (const name of neededBy(lock.packages[path] ?? {})) {
      const found = resolve(lock, path, name);
      paths.add(found);
      dependsOn.add(refOf(lock, found));
    }
  }
  const dependencies = [...edges].map(([ref, dependsOn]) => ({ ref, dependsOn: [...dependsOn].sort() }));
  return { components: [...components.values()], dependencies: dependencies.sort((a, b) => compare(a.ref, b.ref)) };
}

/** Returns the required dependencies. The images are built without optional ones: Node, and development tools. */
function neededBy(locked: LockedPackage): readonly string[] {
  const isRequired = (name: string): boolean => locked.peerDependenciesMeta?.[name]?.optional !== true;
  const peers = Object.keys(locked.peerDependencies ?? {}).filter(isRequired);
  return [...Object.keys(locked.dependencies ?? {}), ...peers];
}

/**
 * Returns the path of a package that the package at `path` imports: in the nearest node_modules upwards, as Node
 * resolves it.
 */
function resolve(lock: LockFile, path: string, name: string): string {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/")))) {
    const candidate = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    const found = lock.packages[candidate];
    if (found !== undefined) return found.link === true ? (found.resolved ?? candidate) : candidate;
    if (folder === "") throw new Error(`package-lock.json has no ${name}, which ${path} depends on`);
  }
}

function componentOf(lock: LockFile, path: string): Component {
  const locked = lock.packages[path] ?? {};
  const name = nameOf(locked, path);
  const version = locked.version ?? "0.0.0";
  const ref = refOf(lock, path);
  // Workspaces are not published, so they have no address in a registry.
  if (!path.includes("node_modules/")) return { type: "library", "bom-ref": ref, name, version };
  return {
    type: "library",
    "bom-ref": ref,
    name,
    version,
    purl: ref,
    ...(locked.license === undefined ? {} : { licenses: [licenseOf(locked.license)] }),
    ...(locked.integrity === undefined ? {} : { hashes: hashesOf(locked.integrity) }),
  };
}

/** Returns the package URL, or for a workspace a name of the same form. */
function refOf(lock: LockFile, path: string): string {
  const locked = lock.packages[path] ?? {};
  const name = nameOf(locked, path);
  const version = locked.version ?? "0.0.0";
  return path.includes("node_modules/") ? `pkg:npm/${name.replace("@", "%40")}@${version}` : `${name}@${version}`;
}

function nameOf(locked: LockedPackage, path: string): string {
  const marker = "node_modules/";
  return locked.name ?? path.slice(path.lastIndexOf(marker) + marker.length);
}

/** Returns an SPDX expression, or free text as a name. */
function licenseOf(license: string): { expression: string } | { license: { name: string } } {
  return /^[\w.+() -]+$/.test(license) && !/^SEE LICENSE/i.test(license)
    ? { expression: license }
    : { license: { name: license } };
}

/** Converts subresource integrity (base64) to hexadecimal digests. */
function hashesOf(integrity: string): NonNullable<Component["hashes"]> {
  return integrity.split(/\s+/).map((each) => {
    const [algorithm = "", digest = ""] = each.split("-", 2);
    return {
      alg: algorithm.toUpperCase().replace("SHA", "SHA-"),
      content: Buffer.from(digest, "base64").toString("hex"),
    };
  });
}

function debianComponent(record: string): Component {
  const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(record)?.[1] ?? "";
  const name = field("Package");
  const version = field("Version");
  if (name === "" || version === "") throw new Error(`not a record of dpkg: ${record.slice(0, 80)}`);
  const architecture = field("Architecture");
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { type: "library", "bom-ref": purl, name, version, purl };
}

/** Returns a UUID of version 8 (RFC 9562 section 5.8) from a digest. */
function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    "-",
  );
}

function sorted(components: readonly Component[]): readonly Component[] {
  return [...components].sort((a, b) => compare(a["bom-ref"], b["bom-ref"]));
}

/** Compares by code units, independently of the locale. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({ options: { dpkg: { type: "string" } }, allowPositionals: true });
  const [folder] = positionals;
  if (folder === undefined) throw new Error("usage: node scripts/sbom.ts [--dpkg FOLDER] FOLDER");
  // npm wrote the file and validates it.
  const lock = JSON.parse(readFileSync(join(import.meta.dirname, "../package-lock.json"), "utf8")) as LockFile;
  const records = values.dpkg === undefined ? [] : globSync(join(values.dpkg, "*")).sort();
  const epoch = process.env["SOURCE_DATE_EPOCH"];
  const platform: Platform = {
    node: process.versions.node,
    debianPackages: records.map((path) => readFileSync(path, "utf8")),
    ...(epoch === undefined ? {} : { timestamp: Number(epoch) * 1_000 }),
  };
  mkdirSync(folder, { recursive: true });
  // The keys of the table above.
  for (const image of Object.keys(imageWorkspaces) as Image[]) {
    const path = join(folder, `${image}.cdx.json`);
    writeFileSync(path, `${JSON.stringify(bomOf(image, lock, platform), null, 2)}\n`);
    console.log(path);
  }
}
