/** A bar that shows a share. The text next to it says the same, so it is hidden from screen readers. */
import type { Tone } from "./plot.tsx";

/** @param share from 0 to 1; larger values are shown as 1. */
export function Gauge({ share, tone }: { share: number; tone: Tone }) {
  return (
    <svg class="gauge" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="8" />
      <rect class={tone} width={100 * Math.min(1, Math.max(0, share))} height="8" />
    </svg>
  );
}
