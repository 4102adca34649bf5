/** Describes for operators why a descriptor of a global limit does not apply to a request. */
import type { DescriptorNotApplied } from "../../../ir/global-limit.ts";

/** Returns the index of the descriptor, the reason, and the condition if that is false. */
export function describeNotApplied({ descriptor: { index, when }, because }: DescriptorNotApplied) {
  return { descriptor: index, because, ...(because === "when" && when !== undefined && { when }) };
}
