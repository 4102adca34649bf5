/** The members of one JSON text that tell its usage: a whole body, or the data of one event of a stream. */
import { textMembers } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import type { UsageTally } from "./usage.ts";

/**
 * `usage` at the top in bodies and in most events; in `response` in the events of OpenAI's responses API; in `message` in
 * Anthropic's `message_start`; in `delta` in Cohere's `message-end`. Gemini says `usageMetadata`, SGLang `meta_info`,
 * Cohere's first API `meta`, and Ollama has its figures at the top. Deeper ones are not the upstream's report: the
 * responses API echoes the client's tools, whose parameters may be called `usage` too.
 */
const paths = {
  ...memberPaths(
    ...["usage", "model", "background"].flatMap((name) => [name, `response.${name}`]),
    ...["message.usage", "message.model", "delta.usage"],
    ...["usageMetadata", "modelVersion", "meta_info", "meta", "prompt_eval_count", "eval_count"],
  ),
  noted: textMembers,
};

/** Starts to read one JSON text; what it tells goes to `tally`. */
export function openUsageScan(tally: UsageTally): JsonMembers {
  return new JsonMembers(paths, (member) => tell(tally, member));
}

function tell(tally: UsageTally, { path, value: json, element }: Member): void {
  const value = parseValue(json);
  switch (path) {
    case "model":
    case "response.model":
    case "message.model":
    case "modelVersion":
      tally.setModel(value);
      break;
    case "background":
    case "response.background":
      if (value === true) tally.setBackground();
      break;
    case "prompt_eval_count":
    case "eval_count":
      tally.add({ [path]: value });
      break;
    case "meta_info":
      if (typeof value === "object") tally.addPart(value, partOf(value, element));
      break;
    case "meta":
      // No name of a usage alone: what has no figures is something else.
      if (typeof value === "object") tally.add(value);
      break;
    default:
      // Of an array that is streamed, each object repeats the total so far (Gemini); other arrays are of several answers.
      if (element > 0 && path !== "usageMetadata") tally.addPart(value, String(element));
      else tally.add(value, path === "message.usage");
  }
}

/** SGLang answers several prompts, or a prompt several times, in one array or stream; each answer has an `id`. */
function partOf(info: object | null, element: number): string {
  const id = info !== null && "id" in info ? info.id : undefined;
  return typeof id === "string" ? id.slice(0, maxIdLength) : String(element);
}

const maxIdLength = 64;

/** A value that is not JSON, or too long to be one of ours, becomes a text, which no usage may be. */
function parseValue(json: Buffer | undefined): unknown {
  if (json === undefined) return "";
  try {
    return JSON.parse(json.toString());
  } catch {
    return "";
  }
}
