/** What Deno itself needs to run, to find its cache, and to fetch what is missing there. */
const NEEDED = [
  ...["PATH", "HOME", "DENO_DIR", "DENO_TLS_CA_STORE", "SSL_CERT_FILE", "JSR_URL"],
  ...["DENO_KV_ACCESS_TOKEN"],
  ...["SYSTEMROOT", "USERPROFILE", "LOCALAPPDATA", "TEMP"],
];

/** Where the coverage of a test run is collected, also that of the processes it starts. */
const COVERAGE = "DENO_COVERAGE_DIR";

/**
 * Makes the environment of a process that is to have none but its own variables. One that is traced is
 * not covered: Deno 2.9 does not always come to its end when it collects both.
 */
export function environmentOf(own: Readonly<Record<string, string>>): Record<string, string> {
  const needed = own.OTEL_DENO === undefined ? [...NEEDED, COVERAGE] : NEEDED;
  const values = needed.map((name) => [name, Deno.env.get(name)] as const);
  const set = values.filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { NO_COLOR: "1", ...Object.fromEntries(set), ...own };
}
