/**
 * Parameters of a GatewayClass or a Gateway: a ConfigMap whose values contain YAML that is merged into the generated
 * objects. The parameters of a Gateway are merged after those of its class, and are restricted by
 * `gateway-parameters.ts`.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { readYaml, type YamlError } from "../../api/yaml-text.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";
import { isRejectedClass, rejectedClassMessage } from "../../translate/environment.ts";
import { parameterKeys, type ParameterKey, type Parameters } from "./parameter-keys.ts";
import { gatewayParametersError } from "./gateway-parameters.ts";

/** Fields that parameters cannot set, because the controller sets them or uses them to identify objects. */
const reservedFields = ["apiVersion", "kind", "status"];

/**
 * The maximum number of characters of a ConfigMap, and of tokens of each of its values. They bound the time for parsing
 * a user's text. All fields that a Gateway may set have about 3,000 characters, a whole Deployment 10,000.
 */
const bounds = {
  Gateway: { characters: 16_384, tokens: 2_000 },
  GatewayClass: { characters: 65_536, tokens: 32_000 },
} as const;

/** The maximum number of reported errors of a text, because the length of a condition is bounded. */
const maxErrors = 3;

/** Parameters, or the reason why they cannot be used. */
export type ReadParameters =
  | { readonly kind: "parameters"; readonly parameters: Parameters }
  /** `message` is one sentence. */
  | { readonly kind: "invalid"; readonly message: string };

const none: ReadParameters = { kind: "parameters", parameters: {} };

/** Returns the parameters to which an object refers; empty ones if it has no reference. Never throws. */
export function parametersOf(owner: Gateway | GatewayClass, configMaps: readonly ConfigMap[]): ReadParameters {
  if (isRejectedClass(owner)) return invalid(rejectedClassMessage);
  const ref = refOf(owner);
  if (ref === undefined) return none;
  if (ref.kind !== "ConfigMap" || ref.group !== "") {
    const found = `${ref.kind} (group "${ref.group}")`;
    return invalid(`parametersRef has kind ${found}; accepted is ConfigMap (group "")`);
  }
  const { namespace, name } = ref;
  if (namespace === undefined) {
    return invalid(
      `parametersRef of a GatewayClass names ConfigMap ${name} without a namespace; the namespace is required`,
    );
  }
  const found = configMaps.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
  if (found === undefined) return invalid(`ConfigMap ${namespace}/${name} does not exist`);
  const cached = readings[owner.kind].get(found);
  if (cached !== undefined) return cached;
  const read = readParameters(found, owner.kind);
  readings[owner.kind].set(found, read);
  return read;
}

/**
 * Caches the parsed parameters of each version of a ConfigMap, for a Gateway and for a class. Every plan reads them
 * several times, and the time for parsing depends on a tenant's text.
 */
const readings = {
  Gateway: new WeakMap<ConfigMap, ReadParameters>(),
  GatewayClass: new WeakMap<ConfigMap, ReadParameters>(),
};

interface ParametersRef {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** Returns the reference of a Gateway or class to its parameters; undefined if it has none. */
export function refOf(owner: Gateway | GatewayClass): ParametersRef | undefined {
  if (owner.kind === "GatewayClass") {
    const ref = owner.spec.parametersRef;
    return ref === undefined ? undefined : { ...ref, namespace: ref.namespace };
  }
  const ref = owner.spec.infrastructure?.parametersRef;
  return ref === undefined ? undefined : { ...ref, namespace: owner.metadata.namespace };
}

function readParameters({ metadata, data }: ConfigMap, owner: "Gateway" | "GatewayClass"): ReadParameters {
  const source = `ConfigMap ${objectKey(metadata)}`;
  const parameters: Partial<Record<ParameterKey, KubeObject>> = {};
  const { characters, tokens } = bounds[owner];
  const length = Object.values(data).reduce((sum, text) => sum + text.length, 0);
  if (length > characters) {
    return invalid(`${source} has ${length} characters; a ${owner} accepts at most ${characters}`);
  }
  for (const [key, text] of Object.entries(data)) {
    const parameterKey = parameterKeys.find((each) => each === key);
    if (parameterKey === undefined) {
      return invalid(`${source}: key ${JSON.stringify(key)} is unknown; accepted are ${parameterKeys.join(", ")}`);
    }
    const read = readMap(text, tokens);
    if (typeof read === "string") return invalid(`${source}: ${key} ${read}`);
    const reserved = reservedFields.find((field) => field in read);
    if (reserved !== undefined) return invalid(`${source}: ${key}.${reserved} cannot be set`);
    const error = owner === "Gateway" ? gatewayParametersError(parameterKey, read) : undefined;
    if (error !== undefined) return invalid(`${source}: ${error}`);
    parameters[parameterKey] = read;
  }
  return { kind: "parameters", parameters };
}

/** Returns the fields of a YAML text, or its error, worded to follow its name in a sentence. */
function readMap(text: string, maxTokens: number): KubeObject | string {
  const [document, second] = readYaml({ path: "", text }, maxTokens);
  if (document?.kind === "unreadable") {
    return `is not valid YAML: ${document.errors.slice(0, maxErrors).map(describeYamlError).join("; ")}`;
  }
  if (second !== undefined) return "must be one document";
  if (!isObject(document?.value)) return "must be a map of fields";
  return document.value;
}

function describeYamlError({ message, location: { line, column } }: YamlError): string {
  return `${message.replace(/^invalid YAML: /, "")} at line ${line}, column ${column}`;
}

function invalid(message: string): ReadParameters {
  return { kind: "invalid", message };
}
