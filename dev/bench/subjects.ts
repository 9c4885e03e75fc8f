import { type Sign, signForge, signMessenger, signStandard } from "./delivery.ts";

/** A server to compare: the package, the baseline, or a peer. */
export interface Subject {
  readonly name: string;
  readonly script: URL;
  readonly sign: Sign;
  /** Arguments of the script. */
  readonly args?: readonly string[];
  /** Flags of Deno besides its permissions. */
  readonly flags?: readonly string[];
}

/** The version written by hand. */
export const BASELINE: Subject = subject("baseline", "baseline");

/** This package. */
export const EDGE_BASE: Subject = subject("edge-base", "edge_base");

/** This package, with its events in a SQLite file. */
export const EDGE_BASE_SQLITE: Subject = {
  ...EDGE_BASE,
  name: "edge-base on SQLite",
  args: ["sqlite"],
};

/** This package, with its events in a Postgres database on the same machine. */
export const EDGE_BASE_POSTGRES: Subject = {
  ...EDGE_BASE,
  name: "edge-base on Postgres",
  args: ["postgres"],
};

/** A server that writes the bytes of a request to KV, and does nothing else. */
export const BARE: Subject = subject("bare write", "bare_write");

/** The same, once a request is verified and parsed. */
export const VERIFIED_WRITE: Subject = {
  ...BARE,
  name: "bare write, verified",
  args: ["verified"],
};

/** A server that verifies and parses a request, and does nothing else. */
export const NO_STORE: Subject = subject("stores nothing", "no_store");

/** A server that stores and handles by group commit, and does nothing else that this takes. */
export const GROUP_COMMIT: Subject = subject("group commit alone", "group_commit");

/** Servers that do the same over the same queue or store: verify, parse, store, answer, handle. */
export const SUBJECTS: readonly Subject[] = [
  BASELINE,
  EDGE_BASE,
  EDGE_BASE_SQLITE,
  subject("@octokit/webhooks", "octokit"),
  subject("grammY", "grammy", signMessenger),
  subject("standardwebhooks", "standard_webhooks", signStandard),
];

/** The app of a checkout of this repository, on the packages that its `deno.json` names. */
export function checkoutAt(folder: string, name: string): Subject {
  const flags = ["--config", `${folder}/deno.json`];
  return { ...subject(name, "checkout"), args: [folder], flags };
}

function subject(name: string, file: string, sign: Sign = signForge): Subject {
  return { name, script: new URL(`./servers/${file}.ts`, import.meta.url), sign };
}
