import { html, raw } from "@hono/hono/html";
import { type Html, number, visible } from "./_format.ts";

// A payload is shown from its bytes, not from what `JSON.parse` makes of them: a number beyond 2^53 would
// be shown as another one, and of a name that is given twice only the last value.

/** Most bytes of a payload that are shown. */
export const MAX_SHOWN_BYTES = 131_072;

/** Most values that are shown. */
const MAX_VALUES = 4_000;

/** Deepest nesting that is shown: no intake accepts a deeper payload. */
const MAX_DEPTH = 64;

/** Longest text that is shown. */
const MAX_TEXT = 4_000;

/** Most characters of a text that is not JSON that are shown. */
const MAX_PLAIN = 16_000;

/** Longest document that is shown with everything unfolded. */
const MAX_UNFOLDED = 6_000;

/** String, which may be cut. */
const STRING = /"(?:[^"\\]+|\\.)*("?)/sy;

const SCALAR = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const escaped = (text: string) => String(html`${visible(text)}`);

/** Payload as it is shown. */
export interface PayloadView {
  /** Content. */
  readonly content: Html;
  /** True if it is shown as JSON, and not as plain text. */
  readonly isJson: boolean;
  /** Limit at which it ends, for people, if only the beginning is shown; otherwise undefined. */
  readonly limit: string | undefined;
}

/**
 * Shows a payload.
 *
 * @param bytes The payload.
 * @returns What is shown of it.
 */
export function viewOf(bytes: Uint8Array): PayloadView {
  const isLong = bytes.length > MAX_SHOWN_BYTES;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const text = decoder.decode(bytes.subarray(0, MAX_SHOWN_BYTES), { stream: isLong });
  const view = new JsonView(text, isLong);
  const json = view.render();
  if (json !== undefined) return { content: raw(json), isJson: true, limit: view.limit };
  const plain = text.slice(0, MAX_PLAIN);
  return {
    content: raw(`<pre>${escaped(plain)}</pre>`),
    isJson: false,
    limit: plain.length < text.length ? `${number(MAX_PLAIN)} characters` : undefined,
  };
}

/** Rendering of one JSON document, which may end early. */
class JsonView {
  /** Limit that is reached: whatever comes after is left out. */
  limit: string | undefined;
  readonly #text: string;
  readonly #isPart: boolean;
  #at = 0;
  #values = 0;
  #isMarked = false;

  constructor(text: string, isPart: boolean) {
    this.#text = text;
    this.#isPart = isPart;
  }

  get #isCut(): boolean {
    return this.limit !== undefined;
  }

  /** Renders the document; undefined if it is not JSON. */
  render(): string | undefined {
    try {
      // An intake accepts a byte order mark before the document.
      if (this.#text.startsWith("\ufeff")) this.#at = 1;
      const html = this.#value("", 0);
      this.#space();
      return this.#isCut || this.#at === this.#text.length ? html : undefined;
    } catch (error) {
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  #value(label: string, depth: number): string {
    const first = this.#peek();
    if (++this.#values > MAX_VALUES) this.limit = `${number(MAX_VALUES)} values`;
    else if (depth > MAX_DEPTH) this.limit = `${MAX_DEPTH} levels deep`;
    if (this.#isCut) return "";
    if (first === "{" || first === "[") return this.#container(label, depth, first);
    return `<div>${label}${first === '"' ? this.#string("s") : this.#scalar()}</div>`;
  }

  #container(label: string, depth: number, open: "{" | "["): string {
    const close = open === "{" ? "}" : "]";
    const members: string[] = [];
    this.#at++;
    while (!this.#isCut && this.#next(close, members.length > 0)) {
      const name = open === "{" ? this.#name() : "";
      members.push(this.#value(name, depth + 1));
    }
    if (members.length === 0) return `<div>${label}${open}${this.#isCut ? "…" : close}</div>`;
    const isOpen = depth < 2 || this.#text.length <= MAX_UNFOLDED;
    const count = `<i>${open}${number(members.length)}${this.#isCut ? "+" : ""}${close}</i>`;
    return `<details${isOpen ? " open" : ""}><summary>${label}${count}</summary>` +
      `${members.join("")}${this.#mark()}</details>`;
  }

  /** Marks where the document was cut, once: in the innermost part. */
  #mark(): string {
    if (!this.#isCut || this.#isMarked) return "";
    this.#isMarked = true;
    return "<div>…</div>";
  }

  /** Steps over the comma before the next member, or over the end. */
  #next(close: string, needsComma: boolean): boolean {
    const character = this.#peek();
    if (character === close) return this.#at++ < 0;
    if (needsComma) this.#expect(",");
    return !this.#isCut;
  }

  #name(): string {
    const first = this.#peek();
    if (first !== '"' && !this.#isCut) throw new SyntaxError("No name");
    const name = this.#isCut ? "" : this.#string("k");
    this.#peek();
    this.#expect(":");
    return `${name}: `;
  }

  #string(kind: "k" | "s"): string {
    STRING.lastIndex = this.#at;
    const [source, end] = STRING.exec(this.#text)!;
    const text = end ? shortened(source) : beginningOf(this.#text.slice(this.#at));
    if (end) this.#at += source.length;
    else this.#end();
    return `<span class="${kind}">${text}</span>`;
  }

  #scalar(): string {
    SCALAR.lastIndex = this.#at;
    const found = SCALAR.exec(this.#text)?.[0];
    if (found === undefined) {
      if (this.#text.length - this.#at >= 5) throw new SyntaxError("No value");
      this.#end();
      return "…";
    }
    this.#at += found.length;
    return `<span class="${/^[tfn]/.test(found) ? "w" : "n"}">${found}</span>`;
  }

  /** Steps over a mark, unless the document was cut before it. */
  #expect(mark: string): void {
    if (!this.#isCut && this.#text[this.#at++] !== mark) throw new SyntaxError(`No ${mark}`);
  }

  /** Reads the next character behind white space, without a step; undefined where the document was cut. */
  #peek(): string | undefined {
    this.#space();
    if (this.#at >= this.#text.length) this.#end();
    return this.#text[this.#at];
  }

  #space(): void {
    while (" \t\n\r".includes(this.#text[this.#at] ?? "x")) this.#at++;
  }

  /** Notes that the text ends here. A document that ends in the middle is not JSON, unless it was cut. */
  #end(): void {
    if (!this.#isPart) throw new SyntaxError("The end");
    this.#at = this.#text.length;
    this.limit = `${number(MAX_SHOWN_BYTES)} bytes`;
  }
}

/** Longest part of an escape, which a cut string may end with: `\\u12f`. */
const MAX_ESCAPE_PART = 5;

/** Shows the beginning of a string of JSON that was cut. */
function beginningOf(source: string): string {
  const part = source.slice(0, MAX_TEXT);
  for (let less = 0;; less++) {
    try {
      const text = JSON.parse(`${part.slice(0, part.length - less)}"`);
      return `${escaped(JSON.stringify(text).slice(0, -1))}…`;
    } catch (error) {
      if (less === Math.min(MAX_ESCAPE_PART, part.length - 1)) throw error;
    }
  }
}

/** Shows a string of JSON: escapes of what can be shown are resolved, and nothing else is changed. */
function shortened(source: string): string {
  // It throws a SyntaxError for escapes that are not valid: then the document is not JSON.
  const text = JSON.stringify(JSON.parse(source));
  const rest = text.length - MAX_TEXT;
  if (rest <= 0) return escaped(text);
  return `${escaped(text.slice(0, MAX_TEXT))}… (${number(rest)} more characters)`;
}
