import { type BenchDelivery, medianDelivery } from "./delivery.ts";

/** A server to compare: the package, the plain version, or a peer. */
export interface Subject {
  readonly name: string;
  readonly script: URL;
  readonly delivery: BenchDelivery;
}

const median = medianDelivery();

const server = (file: string) => new URL(`./servers/${file}.ts`, import.meta.url);

/** The version that is written by hand. */
export const PLAIN: Subject = { name: "plain", script: server("plain"), delivery: median };

/** This package. */
export const EDGE_BASE: Subject = {
  name: "edge-base",
  script: server("edge_base"),
  delivery: median,
};

/** All that are loaded in the same way, over the same queue or store. */
export const SUBJECTS: readonly Subject[] = [PLAIN, EDGE_BASE];
