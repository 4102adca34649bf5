/** Reranking, `POST /v1/rerank`: with tokens as by Jina, and at `/v2/rerank` with search units as by Cohere. */
import { pieces } from "./conversation.ts";
import type { Dialect } from "./dialect.ts";
import { asArray, asString } from "./json.ts";
import { usageMember, usageOf } from "./usage.ts";

export const rerank: Dialect = (body, options, id, { pathname }) => {
  const documents = asArray(body["documents"]).map((document) => asString(document) ?? "");
  const results = documents.map((_, index) => ({ index, relevance_score: 1 / (index + 2) }));
  if (pathname.endsWith("/v2/rerank")) {
    const meta = { api_version: { version: "2" }, billed_units: { search_units: 1 } };
    return { kind: "json", status: 200, body: { id: `mock-${id}`, results, meta } };
  }
  const prompt = pieces([asString(body["query"]) ?? "", ...documents].join(" ")).length;
  const { total } = usageOf(options, { prompt, completion: 0 });
  const usage = usageMember({ total_tokens: total }, options.usageFault);
  return { kind: "json", status: 200, body: { model: asString(body["model"]) ?? "mock-1", ...usage, results } };
};
