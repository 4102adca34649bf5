/** A small plot of the last minutes, with its figures as text: colour and shape are never the only information. */
import type { ComponentChildren } from "preact";
import { formatSeconds } from "../format.ts";

/** Colours defined in style.css. */
export type Tone = "good" | "accent" | "warn" | "bad" | "quiet";

/** One line or area of a plot. */
export interface Series {
  readonly name: string;
  readonly tone: Tone;
  /** One value per time of the plot; undefined leaves a gap. */
  readonly values: readonly (number | undefined)[];
  /** The latest value as text. */
  readonly now: string;
}

/** Properties of a `Plot`. */
export interface PlotProps {
  readonly title: string;
  /** The most important figure as text. */
  readonly headline: ComponentChildren;
  /** Describes the headline. */
  readonly note: string;
  /** Times of the values in seconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  /** `areas` are stacked, the first at the bottom; `lines` are not. */
  readonly form: "areas" | "lines";
  readonly formatValue: (value: number) => string;
}

/** The size of the drawing in its own units; it is stretched to the available space. */
const width = 300;
const height = 64;
/** The shortest span of time: a plot of two seconds would be stretched beyond recognition. */
const minSpanSeconds = 60;

/** A plot with its headline and legend. */
export function Plot({ title, headline, note, times, series, form, formatValue }: PlotProps) {
  const span = Math.max(minSpanSeconds, (times.at(-1) ?? 0) - (times[0] ?? 0));
  const outlines = form === "areas" ? stack(series) : series;
  const most = Math.max(0, ...outlines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const top = most === 0 ? 1 : most;
  const place = (time: number, value: number): string => {
    const x = width - (((times.at(-1) ?? 0) - time) / span) * width;
    return `${x.toFixed(1)},${(height - (value / top) * height).toFixed(1)}`;
  };
  return (
    <figure class="plot" aria-label={title}>
      <figcaption>
        <h3>{title}</h3>
        <p class="headline">{headline}</p>
        <p class="note">{note}</p>
      </figcaption>
      <div class="drawing">
        <p class="scale" aria-hidden="true">
          {most === 0 ? "no data yet" : `at most ${formatValue(most)}`}
        </p>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${title}, the last ${formatSeconds(span)}: ${most === 0 ? "nothing" : `at most ${formatValue(most)}`}`}
        >
          {outlines.map(({ name, tone, values }) =>
            form === "areas" ? (
              <polygon key={name} class={tone} points={areaPoints(times, values, place)} />
            ) : (
              runsOf(times, values).map((run, index) => (
                <polyline
                  key={`${name} ${index}`}
                  class={tone}
                  points={run.map(([at, value]) => place(at, value)).join(" ")}
                />
              ))
            ),
          )}
        </svg>
        <p class="scale" aria-hidden="true">
          <span>{formatSeconds(span)} ago</span>
          <span>now</span>
        </p>
      </div>
      <ul class="legend" aria-label={`${title} in the last minute`}>
        {series.map(({ name, tone, now }) => (
          <li key={name}>
            <svg viewBox="0 0 8 8" aria-hidden="true">
              <rect class={tone} width="8" height="8" />
            </svg>
            {name} <strong>{now}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

type Outline = Pick<Series, "name" | "tone" | "values">;

/** Stacks each series on those before it. The last one comes first, so that the others are drawn over it. */
function stack(series: readonly Series[]): readonly Outline[] {
  let below: readonly number[] = [];
  const outlines = series.map(({ name, tone, values }) => {
    below = values.map((value, at) => (value ?? 0) + (below[at] ?? 0));
    return { name, tone, values: below };
  });
  return outlines.reverse();
}

function areaPoints(
  times: readonly number[],
  values: Outline["values"],
  place: (time: number, value: number) => string,
): string {
  const first = times[0];
  const last = times.at(-1);
  if (first === undefined || last === undefined) return "";
  return [place(first, 0), ...times.map((time, at) => place(time, values[at] ?? 0)), place(last, 0)].join(" ");
}

/** Returns the parts without a gap, as pairs of time and value. */
function runsOf(times: readonly number[], values: Outline["values"]): readonly (readonly [number, number])[][] {
  const runs: [number, number][][] = [[]];
  for (const [at, time] of times.entries()) {
    const value = values[at];
    if (value === undefined) runs.push([]);
    else runs.at(-1)?.push([time, value]);
  }
  return runs.filter(({ length }) => length > 1);
}
