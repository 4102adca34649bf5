/** Names and labels of what is made for a Gateway. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import { createHash } from "node:crypto";
import { gatewayLabelValue } from "../../translate/gateway-label.ts";

/** Says of an object that we made it; only such objects are ever changed or deleted. */
export const managedByLabel = "app.kubernetes.io/managed-by";
export const managedBy = "gatewayproxy.dev";

/** Beside the Gateway's name, for objects that are not in its namespace. */
export const gatewayNamespaceLabel = "gatewayproxy.dev/gateway-namespace";

/** A Gateway as the labels of its objects name it. */
export function ownerKey({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return `${namespace}/${gatewayLabelValue(name)}`;
}

/** Longest name of a Service. */
const longest = 63;

/**
 * A DNS label (RFC 1035) for a text: itself where it is one. What had to be cut or replaced is told apart by eight
 * digits of its hash.
 */
export function boundedName(text: string, max = longest): string {
  const plain = text.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-");
  const startsWell = /^[a-z]/.test(plain) ? plain : `g-${plain}`;
  if (startsWell === text && text.length <= max && !text.endsWith("-")) return text;
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8);
  return `${trimEnd(startsWell.slice(0, max - 9), /-/)}-${hash}`;
}
