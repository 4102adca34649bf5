/**
 * Parameters of a GatewayClass or a Gateway: a ConfigMap whose keys hold YAML that is merged over the generated objects.
 * Those of the Gateway are merged over those of its class, and are restricted to what `gateway-parameters.ts` accepts.
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

/** Fields that parameters cannot set, since the controller identifies objects by them. */
const identity = ["apiVersion", "kind", "status"];

/**
 * The maxima of characters of a ConfigMap, and of tokens of each of its keys. They bound the time that the controller
 * spends on parsing a user's text. All fields that a Gateway may set have about 3,000 characters, a whole Deployment 10,000.
 */
const bounds = {
  Gateway: { characters: 16_384, tokens: 2_000 },
  GatewayClass: { characters: 65_536, tokens: 32_000 },
} as const;

/** The number of errors of a text that are reported: a condition has a bounded length. */
const maxFaults = 3;

/** Parameters, or why they cannot be used. */
export type ReadParameters =
  | { readonly kind: "parameters"; readonly parameters: Parameters }
  /** `message` is one sentence. */
  | { readonly kind: "fault"; readonly message: string };

const none: ReadParameters = { kind: "parameters", parameters: {} };

/** Returns the parameters that an object refers to, none without a reference, or why they cannot be read. Never throws. */
export function parametersOf(owner: Gateway | GatewayClass, configMaps: readonly ConfigMap[]): ReadParameters {
  if (isRejectedClass(owner)) return fault(rejectedClassMessage);
  const ref = refOf(owner);
  if (ref === undefined) return none;
  if (ref.kind !== "ConfigMap" || ref.group !== "") {
    const found = `${ref.kind} (group "${ref.group}")`;
    return fault(`parametersRef has kind ${found}; accepted is ConfigMap (group "")`);
  }
  const { namespace, name } = ref;
  if (namespace === undefined) {
    return fault(
      `parametersRef of a GatewayClass names ConfigMap ${name} without a namespace; the namespace is required`,
    );
  }
  const found = configMaps.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
  if (found === undefined) return fault(`ConfigMap ${namespace}/${name} does not exist`);
  const known = readings[owner.kind].get(found);
  if (known !== undefined) return known;
  const read = readParameters(found, owner.kind);
  readings[owner.kind].set(found, read);
  return read;
}

/**
 * Caches the parsed parameters of each version of a ConfigMap, for a Gateway and for a class. Every plan reads them several
 * times, and a tenant's text decides how long parsing takes.
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

/** Returns the reference of a Gateway or class to its parameters; undefined where it has none. */
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
    return fault(`${source} has ${length} characters; a ${owner} accepts at most ${characters}`);
  }
  for (const [key, text] of Object.entries(data)) {
    const known = parameterKeys.find((each) => each === key);
    if (known === undefined) {
      return fault(`${source}: key ${JSON.stringify(key)} is unknown; accepted are ${parameterKeys.join(", ")}`);
    }
    const read = readMap(text, tokens);
    if (typeof read === "string") return fault(`${source}: ${key} ${read}`);
    const taken = identity.find((field) => field in read);
    if (taken !== undefined) return fault(`${source}: ${key}.${taken} cannot be set`);
    const error = owner === "Gateway" ? gatewayParametersError(known, read) : undefined;
    if (error !== undefined) return fault(`${source}: ${error}`);
    parameters[known] = read;
  }
  return { kind: "parameters", parameters };
}

/** Returns the fields of a YAML text, or its error, worded to follow its name in a sentence. */
function readMap(text: string, maxTokens: number): KubeObject | string {
  const [document, second] = readYaml({ path: "", text }, maxTokens);
  if (document?.kind === "unreadable") {
    return `is not valid YAML: ${document.errors.slice(0, maxFaults).map(describeFault).join("; ")}`;
  }
  if (second !== undefined) return "must be one document";
  if (!isObject(document?.value)) return "must be a map of fields";
  return document.value;
}

function describeFault({ message, location: { line, column } }: YamlError): string {
  return `${message.replace(/^invalid YAML: /, "")} at line ${line}, column ${column}`;
}

function fault(message: string): ReadParameters {
  return { kind: "fault", message };
}
