import { type Sign, signForge, signMessenger, signStandard } from "./delivery.ts";

/** A server to compare: the package, the plain version, or a peer. */
export interface Subject {
  readonly name: string;
  readonly script: URL;
  readonly sign: Sign;
}

const server = (file: string) => new URL(`./servers/${file}.ts`, import.meta.url);

/** The version that is written by hand. */
export const PLAIN: Subject = { name: "plain", script: server("plain"), sign: signForge };

/** This package. */
export const EDGE_BASE: Subject = {
  name: "edge-base",
  script: server("edge_base"),
  sign: signForge,
};

/** What writes the bytes of a request to KV, and does nothing else. */
export const BARE: Subject = { name: "bare write", script: server("bare_write"), sign: signForge };

/** The same, of what it has proved and parsed. */
export const PROVED_WRITE: Subject = {
  name: "bare write, proved",
  script: server("proved_write"),
  sign: signForge,
};

/** What proves and parses a request, and does nothing else. */
export const NO_STORE: Subject = {
  name: "stores nothing",
  script: server("no_store"),
  sign: signForge,
};

/** What stores and handles in shared commits, and does nothing of what else that takes. */
export const SHARED_COMMITS: Subject = {
  name: "shared commits alone",
  script: server("shared_commits"),
  sign: signForge,
};

/** All that do the same over the same queue or store: prove, parse, store, answer, handle. */
export const SUBJECTS: readonly Subject[] = [
  PLAIN,
  EDGE_BASE,
  { name: "@octokit/webhooks", script: server("octokit"), sign: signForge },
  { name: "grammY", script: server("grammy"), sign: signMessenger },
  { name: "standardwebhooks", script: server("standard_webhooks"), sign: signStandard },
];
