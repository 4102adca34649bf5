/**
 * The name of a model in the keys of limits. A provider that lists no models gets them as clients spell them, and
 * servers read some spellings alike: without case, without blanks, or with the collection that the API of Gemini or
 * Bedrock has them in. Each such spelling would be a new budget for the same model. Models that share a name here share
 * a counter, so that an error falls to the side of the limit.
 */
import type { RequestView } from "../../cel/request-view.ts";

/** No provider has longer names. */
const maxNameLength = 256;

/** Returns the view of a request for its keys. */
export function viewForKeys(view: RequestView): RequestView {
  const { llm } = view;
  if (llm === undefined) return view;
  const { requestModel, clientModel } = llm;
  return { ...view, llm: { ...llm, requestModel: countedModel(requestModel), clientModel: countedModel(clientModel) } };
}

/** Undefined for a name that no model has, so that its requests are counted with those that name none. */
function countedModel(name: string | undefined): string | undefined {
  if (name === undefined || name.length > maxNameLength) return undefined;
  const plain = name
    .normalize("NFKC")
    .replaceAll(/[\p{White_Space}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "")
    .toLowerCase();
  // `models/NAME` of Gemini, `arn:aws:bedrock:REGION::foundation-model/NAME` of Bedrock.
  const isInCollection = plain.startsWith("models/") || plain.startsWith("arn:");
  const own = isInCollection ? plain.slice(plain.lastIndexOf("/") + 1) : plain;
  return own === "" ? undefined : own;
}
