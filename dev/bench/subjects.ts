import { type Sign, signForge, signMessenger, signStandard } from "./delivery.ts";

/** A server to compare: the package, the baseline, or a peer. */
export interface Subject {
  readonly name: string;
  readonly script: URL;
  readonly sign: Sign;
}

const server = (file: string) => new URL(`./servers/${file}.ts`, import.meta.url);

/** The version written by hand. */
export const BASELINE: Subject = { name: "baseline", script: server("baseline"), sign: signForge };

/** This package. */
export const EDGE_BASE: Subject = {
  name: "edge-base",
  script: server("edge_base"),
  sign: signForge,
};

/** A server that writes the bytes of a request to KV, and does nothing else. */
export const BARE: Subject = { name: "bare write", script: server("bare_write"), sign: signForge };

/** The same, once a request is verified and parsed. */
export const VERIFIED_WRITE: Subject = {
  name: "bare write, verified",
  script: server("verified_write"),
  sign: signForge,
};

/** A server that verifies and parses a request, and does nothing else. */
export const NO_STORE: Subject = {
  name: "stores nothing",
  script: server("no_store"),
  sign: signForge,
};

/** A server that stores and handles by group commit, and does nothing else that this takes. */
export const GROUP_COMMIT: Subject = {
  name: "group commit alone",
  script: server("group_commit"),
  sign: signForge,
};

/** Servers that do the same over the same queue or store: verify, parse, store, answer, handle. */
export const SUBJECTS: readonly Subject[] = [
  BASELINE,
  EDGE_BASE,
  { name: "@octokit/webhooks", script: server("octokit"), sign: signForge },
  { name: "grammY", script: server("grammy"), sign: signMessenger },
  { name: "standardwebhooks", script: server("standard_webhooks"), sign: signStandard },
];
