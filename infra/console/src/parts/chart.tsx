/** A chart over time, drawn by uPlot in the page's colours, with its numbers as a table for those who cannot see it. */
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { moment } from "../format.ts";

export interface Line {
  name: string;
  /** Which of the page's colours. */
  tone: "accent" | "good" | "bad" | "warn";
  kind: "line" | "bars";
  values: (number | null)[];
}

interface Props {
  title: string;
  /** Seconds since the Unix epoch. */
  times: number[];
  lines: Line[];
  format: (value: number) => string;
}

const HEIGHT = 190;

export function Chart({ title, times, lines, format }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data = useRef<uPlot.AlignedData>([times]);
  data.current = [times, ...lines.map((line) => line.values)];
  useEffect(() => {
    let wanted = true;
    let watch: ResizeObserver | undefined;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const draw = async () => {
      const { default: UPlot } = await import("./uplot.ts");
      if (!wanted || !place.current) return;
      plot.current?.destroy();
      plot.current = new UPlot(options(UPlot, place.current, lines, format), data.current, place.current);
    };
    const redraw = () => void draw();
    void draw();
    if (place.current) {
      watch = new ResizeObserver(([entry]) => entry && plot.current?.setSize({ width: entry.contentRect.width, height: HEIGHT }));
      watch.observe(place.current);
    }
    scheme.addEventListener("change", redraw);
    addEventListener("longhaul-theme", redraw);
    return () => {
      wanted = false;
      watch?.disconnect();
      scheme.removeEventListener("change", redraw);
      removeEventListener("longhaul-theme", redraw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [title]);
  useEffect(() => plot.current?.setData(data.current));
  return (
    <figure class="card chart">
      <figcaption>{title}</figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
      <ul class="legend">
        {lines.map((line) => <li key={line.name}><span class={`swatch ${line.tone}`} aria-hidden="true" />{line.name}</li>)}
      </ul>
      <details>
        <summary>As a table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={title}>
          <table>
            <thead><tr><th scope="col">from</th>{lines.map((line) => <th key={line.name} scope="col" class="number">{line.name}</th>)}</tr></thead>
            <tbody>
              {times.map((time, at) => (
                <tr key={time}>
                  <th scope="row">{moment(time * 1_000)}</th>
                  {lines.map((line) => <td key={line.name} class="number">{line.values[at] == null ? "–" : format(line.values[at]!)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

function options(UPlot: typeof uPlot, place: HTMLElement, lines: Line[], format: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(place);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: `12px ${style.fontFamily}` };
  return {
    width: place.clientWidth || 300,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, 1)] } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 76, values: (_plot, values) => values.map((value) => format(value)) }],
    series: [
      {},
      ...lines.map((line): uPlot.Series => ({
        label: line.name,
        stroke: colour(line.tone),
        width: 2,
        fill: line.kind === "bars" ? `${colour(line.tone)}55` : undefined,
        paths: line.kind === "bars" ? UPlot.paths.bars?.({ size: [0.7, 40] }) : undefined,
        points: { show: line.kind === "line" && line.values.includes(null), size: 5, fill: colour(line.tone) },
        spanGaps: true,
      })),
    ],
  };
}
