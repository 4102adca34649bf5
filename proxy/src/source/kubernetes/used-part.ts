/**
 * The part of an object that is read. Anyone may give an object a hundred thousand labels, annotations or keys, of
 * which next to none are used. Whatever goes through all of them, in each process and for each version, would hold the
 * event loop.
 */
import { detachedText } from "@gatewayproxy/runtime/detached-text";
import { serviceNameLabel } from "../../api/endpoint-slice.ts";
import { gatewayNameLabel } from "../../api/names.ts";
import { maxSelectorLabels } from "../../api/service.ts";
import { fieldsIn, isObject, type KubeObject } from "../../kube/object.ts";

const identity = ["namespace", "name", "uid", "generation", "creationTimestamp", "deletionTimestamp", "finalizers"];
/** Labels of Services and EndpointSlices. */
const readLabels = [gatewayNameLabel, serviceNameLabel];

/**
 * Keys of a Secret or a ConfigMap, and labels and annotations of a Secret. Those of these names are among them in any
 * case.
 */
const maxKeys = 1_024;
const readKeys = [
  ...["apiKey", "tls.crt", "tls.key", "ca.crt", "jwks", "accessKeyId", "secretAccessKey", "sessionToken"],
  ...["deployment", "service"],
];
/** Of the type of a Secret. */
const maxTypeLength = 253;

/** Returns the part of an object that is read. */
export function usedPart(object: KubeObject): KubeObject {
  switch (object["kind"]) {
    case "Namespace":
    case "GatewayClass":
      // Of operators, whose labels select namespaces.
      return object;
    case "Secret":
      return ofSecret(object);
    case "ConfigMap":
      return { ...identified(object), data: firstFields(object["data"], maxKeys, readKeys) };
    case "Service":
      return withShortSelector({ ...object, ...identified(object) });
    default:
      return { ...object, ...identified(object) };
  }
}

function identified({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  if (!isObject(metadata)) return { apiVersion, kind, metadata };
  const { labels } = metadata;
  const kept = isObject(labels) ? fieldsIn(labels, readLabels) : labels;
  return {
    apiVersion,
    kind,
    metadata: { ...fieldsIn(metadata, identity), ...(kept !== undefined && { labels: kept }) },
  };
}

function ofSecret(object: KubeObject): KubeObject {
  const { apiVersion, kind, metadata, type, data, stringData } = object;
  if (!isObject(metadata)) return object;
  const { labels, annotations } = metadata;
  return {
    ...{ apiVersion, kind },
    metadata: {
      ...fieldsIn(metadata, identity),
      labels: firstFields(labels, maxKeys),
      annotations: firstFields(annotations, maxKeys),
    },
    type:
      typeof type === "string" && type.length > maxTypeLength
        ? detachedText(type.slice(0, maxTypeLength).toWellFormed())
        : type,
    data: firstFields(data, maxKeys, readKeys),
    stringData: firstFields(stringData, maxKeys, readKeys),
  };
}

function withShortSelector(service: KubeObject): KubeObject {
  const { spec } = service;
  if (!isObject(spec)) return service;
  return { ...service, spec: { ...spec, selector: firstFields(spec["selector"], maxSelectorLabels) } };
}

/** Returns the first fields, and those of `names`; the same value if it has no more. */
function firstFields(value: unknown, max: number, names: readonly string[] = []): unknown {
  if (!isObject(value)) return value;
  const first: string[] = [];
  for (const name in value) {
    if (first.length === max) return fieldsIn(value, [...new Set([...first, ...names])]);
    first.push(name);
  }
  return value;
}
