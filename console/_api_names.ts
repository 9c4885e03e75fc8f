/**
 * Names that programs may send, by page and by form: another one, as of a misspelt filter, is refused, since without it a
 * choice would be of all.
 *
 * @module
 */
import { ParameterError } from "./_http.ts";
import { CHOICE } from "./_query.ts";

/** Names by the pages that have any. */
export const PAGE_NAMES: Readonly<Record<string, readonly string[]>> = {
  overview: ["period"],
  problem: ["id", "state", "cursor"],
  deliveries: [...CHOICE, "cursor", "far", "top"],
  export: [...CHOICE, "format"],
  ...{ delivery: ["id"], payload: ["id"], fixture: ["id"] },
  ...{ parked: ["cursor"], wake: ["id"] },
  ...{ states: ["prefix", "intake"], state: ["key", "intake"] },
  ...{ acts: ["cursor"], progress: ["id"], changed: ["id", "part"] },
};

/** Names by form. */
export const FORM_NAMES: Readonly<Record<string, readonly string[]>> = {
  act: ["kind", "id", ...CHOICE, "act", "of", "dryRun"],
  ...{ stop: ["id", "act", "dryRun"], resume: ["id", "act", "dryRun"] },
  wake: ["id", "kind", "since", "value", "as", "act", "dryRun"],
  repeat: ["id", "step", "act", "dryRun"],
  schedule: ["schedule", "do", "act", "dryRun"],
  forget: ["key", "intake", "version", "act", "dryRun"],
  send: ["platform", "type", "payload", "dryRun"],
};

/** Names whose values may be empty: those of no intake, and of any key. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set(["intake", "prefix"]);

/**
 * Checks the names that a program sends, and that each has a value.
 *
 * @throws {ParameterError} 400 if one is not among them, or is empty: both would be as if it had not been sent.
 */
export function checkNames(parameters: URLSearchParams, names: readonly string[] = []): void {
  for (const [name, value] of parameters) {
    if (!names.includes(name)) {
      const known = names.length > 0 ? `only ${names.join(", ")}` : "none at all";
      throw new ParameterError(`${quoted(name)} is unknown here, where there is ${known}`);
    }
    if (value.trim() === "" && !MAY_BE_EMPTY.has(name)) {
      throw new ParameterError(`'${name}' is empty: leave it out, or give it a value`);
    }
  }
}

/** Quotes the name that is wrong, cut. */
const quoted = (name: string): string => JSON.stringify(name.slice(0, 40));
