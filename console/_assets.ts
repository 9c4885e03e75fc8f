import { createHash } from "node:crypto";
import { SCRIPT } from "./_script.ts";
import { STYLE } from "./_style.ts";

/** File that pages load. Its name has a hash of its content, so it may be cached for good. */
export interface Asset {
  /** Name. */
  readonly name: string;
  /** Media type. */
  readonly type: string;
  /** Content. */
  readonly content: string;
}

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" ` +
  `rx="3.5" fill="#2b5fd9"/><path d="M3.5 11V8.5M8 11V4.5M12.5 11V7" stroke="#fff" stroke-width="2.2"/></svg>`;

/** Files that pages load. */
export const ASSETS = {
  style: asset("style", "css", "text/css", STYLE),
  script: asset("script", "js", "text/javascript", SCRIPT),
  icon: asset("icon", "svg", "image/svg+xml", ICON),
} as const;

function asset(name: string, extension: string, type: string, content: string): Asset {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  return { name: `${name}-${hash}.${extension}`, type: `${type}; charset=utf-8`, content };
}
