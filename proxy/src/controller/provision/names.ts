/** Names and labels of the objects of a Gateway. */
import { gatewayNameLabel } from "../../api/names.ts";
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import { createHash } from "node:crypto";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { fieldsOf, type KubeObject } from "../../kube/object.ts";
import { gatewayLabelValue } from "../../translate/gateway/gateway-label.ts";

/** The label that marks the objects of this controller. No other object is ever changed or deleted. */
export const managedByLabel = "app.kubernetes.io/managed-by";
/** The value of `managedByLabel`. */
export const managedBy = "gatewayproxy.dev";

/** The label with the Gateway's namespace, for objects that are not in it. */
export const gatewayNamespaceLabel = "gatewayproxy.dev/gateway-namespace";

/** Returns the key of a Gateway, `namespace/name`, with a long name shortened as in the labels of its objects. */
export function ownerKey({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${gatewayLabelValue(name)}`;
}

/**
 * Returns the Gateway to which an object belongs, as `ownerKey`. Every pass asks for all objects with the controller's
 * label.
 */
export const ownerOf = memoised(
  (object: KubeObject): string =>
    `${labelOf(object, gatewayNamespaceLabel) ?? ""}/${labelOf(object, gatewayNameLabel) ?? ""}`,
);

/** Returns the value of a label of an object; undefined if it has none. */
export function labelOf({ metadata }: KubeObject, label: string): string | undefined {
  const value = fieldsOf(fieldsOf(metadata)["labels"])[label];
  return typeof value === "string" ? value : undefined;
}

/** The maximum length of a Service's name. */
const maxNameLength = 63;

/**
 * Returns a DNS label (RFC 1035) for a text: the text itself if it is one. Another text is cut or changed and gets
 * eight digits of its hash, so that different texts have different names.
 */
export function boundedName(text: string, max = maxNameLength): string {
  const plain = text.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-");
  const withInitialLetter = /^[a-z]/.test(plain) ? plain : `g-${plain}`;
  if (withInitialLetter === text && text.length <= max && !text.endsWith("-")) return text;
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
  return `${trimEnd(withInitialLetter.slice(0, max - 9), /-/)}-${hash}`;
}
