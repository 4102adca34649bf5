/** The members of one JSON text that tell its usage: a whole body, or the data of one event of a stream. */
import { textMembers } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import type { UsageTally } from "./usage.ts";

/**
 * `usage` at the top in bodies and in most events; in `response` in the events of OpenAI's responses API; in `message` in
 * Anthropic's `message_start`; in `delta` in Cohere's `message-end`; in `interaction` in the last event of Gemini's interactions.
 * Gemini says `usageMetadata` elsewhere, SGLang `meta_info`, Cohere's first API `meta` (in the last event of a stream in
 * `response`), and Ollama has its figures at the top. Deeper ones are not the upstream's report: the
 * responses API echoes the client's tools, whose parameters may be called `usage` too.
 */
const paths = {
  ...memberPaths(
    ...["usage", "model", "background"].flatMap((name) => [name, `response.${name}`]),
    ...["message.usage", "message.model", "delta.usage", "response.meta"],
    ...["interaction.usage", "interaction.model"],
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
    case "interaction.model":
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
      if (value === undefined) tally.setIncomplete();
      else if (typeof value === "object") addAnswer(tally, value, element);
      break;
    case "meta":
    case "response.meta":
      // No name of a usage alone: what has no figures is something else.
      if (typeof value === "object") tally.add(value);
      break;
    default:
      if (value === undefined) tally.setIncomplete();
      // Of an array that is streamed, each object repeats the total so far (Gemini); other arrays are of several answers.
      if (element > 0 && path !== "usageMetadata") tally.addPart(value, String(element));
      else tally.add(value, path === "message.usage");
  }
}

/**
 * SGLang answers several prompts, or a prompt several times, in one array or stream; each answer has an `id`. It begins
 * with the client's `rid`, which may be long and the same in all. In an array the place tells the answers apart; in a
 * stream the whole id does, so with a longer one than is kept the sum is not complete.
 */
function addAnswer(tally: UsageTally, info: object | null, element: number): void {
  const id = info !== null && "id" in info && typeof info.id === "string" ? info.id : "";
  if (element === 0 && id.length > maxIdLength) tally.setIncomplete();
  tally.addPart(info, element === 0 ? `id ${id.slice(0, maxIdLength)}` : String(element));
}

/** 1,024 parts of this length are 1 MiB. */
const maxIdLength = 1024;

/** Undefined where the value is not JSON, or too long to be kept. */
function parseValue(json: Buffer | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json.toString());
  } catch {
    return undefined;
  }
}
