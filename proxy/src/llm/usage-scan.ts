/** The members of one JSON text that tell its usage: a whole body, or the data of one event of a stream. */
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import { textMembers } from "./estimate.ts";
import type { UsageTally } from "./usage.ts";

/**
 * At the top in bodies and in most events; in `response` in the events of OpenAI's responses API; in `message` in
 * Anthropic's `message_start`. Deeper ones are not the upstream's report: the responses API echoes the client's tools,
 * whose parameters may be called `usage` too.
 */
const paths = {
  ...memberPaths("usage", "model", "response.usage", "response.model", "message.usage", "message.model"),
  noted: textMembers,
};

/** Starts to read one JSON text; what it tells goes to `tally`. */
export function openUsageScan(tally: UsageTally): JsonMembers {
  return new JsonMembers(paths, (member) => tell(tally, member));
}

function tell(tally: UsageTally, member: Member): void {
  const value = parseValue(member.value);
  if (member.path.endsWith("model")) tally.setModel(value);
  else tally.add(value, member.path === "message.usage");
}

/** A value that is not JSON, or too long to be one of ours, becomes a text, which no usage may be. */
function parseValue(json: Buffer | undefined): unknown {
  if (json === undefined) return "";
  try {
    return JSON.parse(json.toString());
  } catch {
    return "";
  }
}
