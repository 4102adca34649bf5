/**
 * Reads the usage that a response reports in its header fields: Bedrock's InvokeModel, whose body has the format of the
 * model and may contain no usage.
 */

/** The figures by their field (Amazon Bedrock user guide, "Count tokens" and "Prompt caching"). */
const figureOfField: ReadonlyMap<string, string> = new Map([
  ["x-amzn-bedrock-input-token-count", "inputTokenCount"],
  ["x-amzn-bedrock-output-token-count", "outputTokenCount"],
  ["x-amzn-bedrock-cache-read-input-token-count", "cacheReadInputTokenCount"],
  ["x-amzn-bedrock-cache-write-input-token-count", "cacheWriteInputTokenCount"],
]);

/**
 * Returns the usage of a response in the form of a usage object; undefined if no field reports any.
 *
 * @param headers flat: names and values.
 */
export function usageOfFields(headers: readonly string[]): object | undefined {
  let figures: Record<string, number> | undefined;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? "";
    // Nearly all names have another length.
    if (name.length < shortestField) continue;
    const figure = figureOfField.get(name.toLowerCase());
    if (figure === undefined) continue;
    figures ??= {};
    figures[figure] = numberOf(headers[at + 1] ?? "");
  }
  return figures;
}

const shortestField = Math.min(...[...figureOfField.keys()].map((name) => name.length));

/** A value that is not a whole number is invalid as a figure. */
function numberOf(value: string): number {
  return /^\s*\d{1,10}\s*$/.test(value) ? Number(value) : Number.NaN;
}
