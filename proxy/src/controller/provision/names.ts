/** Names and labels of the objects of a Gateway. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import { createHash } from "node:crypto";
import { gatewayLabelValue } from "../../translate/gateway/gateway-label.ts";

/** The label that marks the objects of this controller. No other object is ever changed or deleted. */
export const managedByLabel = "app.kubernetes.io/managed-by";
/** The value of `managedByLabel`. */
export const managedBy = "gatewayproxy.dev";

/** The label with the Gateway's namespace, for objects that are not in it. */
export const gatewayNamespaceLabel = "gatewayproxy.dev/gateway-namespace";

/** Returns the key of a Gateway from the values of its objects' labels: `namespace/name`, with a long name shortened. */
export function ownerKey({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${gatewayLabelValue(name)}`;
}

/** The maximum length of a Service's name. */
const longest = 63;

/**
 * Returns a DNS label (RFC 1035) for a text: the text itself where it is one. A text that has to be cut or changed gets
 * eight digits of its hash, so that different texts have different names.
 */
export function boundedName(text: string, max = longest): string {
  const plain = text.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-");
  const startsWell = /^[a-z]/.test(plain) ? plain : `g-${plain}`;
  if (startsWell === text && text.length <= max && !text.endsWith("-")) return text;
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
  return `${trimEnd(startsWell.slice(0, max - 9), /-/)}-${hash}`;
}
