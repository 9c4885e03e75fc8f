import type { Spread } from "./samples.ts";

/** One figure, drawn for all rows and columns of its scenario. */
export interface Panel {
  readonly title: string;
  readonly kind: "bars" | "line";
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  spread(row: string, column: string): Spread | undefined;
}

/** The size of a panel. */
export const PANEL_WIDTH = 470;
/** The size of a panel. */
export const PANEL_HEIGHT = 230;

/** The axes. */
const [LEFT, RIGHT, TOP, BOTTOM] = [60, PANEL_WIDTH - 20, 40, PANEL_HEIGHT - 40];

const COLORS = ["#9ca3af", "#2563eb", "#f59e0b", "#10b981", "#ec4899", "#6366f1"];

/** The color of a column: the same in all panels. */
export function colorOf(columns: readonly string[], column: string): string {
  return COLORS[columns.indexOf(column) % COLORS.length]!;
}

/** Writes a text. */
export function text(x: number, y: number, content: string, anchor = "start"): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escaped}</text>`;
}

/** Draws a bar for each row and column, with the least and the most as a whisker. */
export function bars(panel: Panel, columns: readonly string[]): string {
  const { rows, columns: own, spread } = panel;
  const scale = scaleOf(panel);
  const groupWidth = (RIGHT - LEFT) / rows.length;
  const width = groupWidth * 0.8 / own.length;
  const marks = rows.flatMap((row, r) =>
    own.map((column, c) => {
      const value = spread(row, column);
      if (!value) return "";
      const x = LEFT + r * groupWidth + groupWidth * 0.1 + c * width;
      const y = scale(value.median);
      const fill = colorOf(columns, column);
      const height = (BOTTOM - y).toFixed(1);
      return `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${(width * 0.9).toFixed(1)}" ` +
        `height="${height}" fill="${fill}"/>${whisker(x + width * 0.45, value, scale)}`;
    })
  );
  return frame(panel, scale) + marks.join("");
}

/** Draws a line for each column, with a point for each row. */
export function lines(panel: Panel, columns: readonly string[]): string {
  const { rows, columns: own, spread } = panel;
  const scale = scaleOf(panel);
  const marks = own.map((column) => {
    const points = rows.flatMap((row, i) => {
      const value = spread(row, column);
      return value ? [{ x: middleOf(rows, i), value }] : [];
    });
    const path = points.map(({ x, value }) => `${x.toFixed(1)},${scale(value.median).toFixed(1)}`);
    const color = colorOf(columns, column);
    const dots = path.map((point) => {
      const [x, y] = point.split(",");
      return `<circle cx="${x}" cy="${y}" r="3" fill="${color}"/>`;
    });
    return `<polyline points="${path.join(" ")}" fill="none" stroke="${color}" stroke-width="2"/>` +
      dots.join("") + points.map(({ x, value }) => whisker(x, value, scale)).join("");
  });
  return frame(panel, scale) + marks.join("");
}

type Scale = (value: number) => number;

function scaleOf({ rows, columns, spread }: Panel): Scale & { top: number } {
  const values = rows.flatMap((row) => columns.map((column) => spread(row, column)?.max ?? 0));
  const most = Math.max(...values, 1e-9);
  const unit = 10 ** Math.floor(Math.log10(most));
  const top = Math.ceil(most / unit * 2) / 2 * unit;
  const scale = (value: number) => BOTTOM - (BOTTOM - TOP) * value / top;
  return Object.assign(scale, { top });
}

function frame({ title, rows }: Panel, scale: Scale & { top: number }): string {
  const ticks = [0, 0.5, 1].map((share) => {
    const y = scale(share * scale.top);
    return `<line x1="${LEFT}" x2="${RIGHT}" y1="${y}" y2="${y}" stroke="#e5e7eb"/>` +
      text(LEFT - 6, y + 4, (share * scale.top).toLocaleString("en"), "end");
  });
  const names = rows.map((row, i) => text(middleOf(rows, i), BOTTOM + 16, row, "middle"));
  return text(LEFT, TOP - 16, title) + ticks.join("") + names.join("");
}

function middleOf(rows: readonly string[], i: number): number {
  return LEFT + (i + 0.5) * (RIGHT - LEFT) / rows.length;
}

function whisker(x: number, { min, max }: Spread, scale: Scale): string {
  const [from, to] = [scale(min).toFixed(1), scale(max).toFixed(1)];
  const at = x.toFixed(1);
  return `<line x1="${at}" x2="${at}" y1="${from}" y2="${to}" stroke="#1f2937" stroke-opacity="0.6"/>`;
}
