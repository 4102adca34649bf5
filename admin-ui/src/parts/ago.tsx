/** A time in relation to another. */
import { formatSeconds } from "../format.ts";

/** Shows how long before `at` a time was, with the time itself on hover. */
export function Ago({ time, at }: { time: string; at: string }) {
  const seconds = Math.max(0, (Date.parse(at) - Date.parse(time)) / 1000);
  return (
    <time dateTime={time} title={time}>
      {formatSeconds(seconds)}
    </time>
  );
}
