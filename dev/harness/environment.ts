/**
 * Variables that Deno and npm need to run, to find their caches, and to reach a registry through the
 * user's proxy and with the user's certificates. Windows ignores the case of names, and proxies are set in
 * both cases.
 */
const NEEDED = [
  ...["PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"],
  ...["USERPROFILE", "LOCALAPPDATA", "APPDATA", "SYSTEMROOT", "TEMP", "TMP"],
  ...["DENO_DIR", "DENO_AUTH_TOKENS", "DENO_CERT", "DENO_TLS_CA_STORE", "JSR_URL"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"],
  "DENO_KV_ACCESS_TOKEN",
];

/** Prefix of npm's settings: its registry and its cache are among them. */
const NPM_SETTING = "NPM_CONFIG_";

/** Folder that collects the coverage of a test run, also that of the processes it starts. */
const COVERAGE = "DENO_COVERAGE_DIR";

/**
 * Makes the environment of a process that gets only the given variables and those that Deno needs. A process
 * that is traced collects no coverage: Deno 2.9 does not always end when it collects both.
 *
 * @param own The variables.
 * @param all The variables of this process.
 */
export function environmentOf(
  own: Readonly<Record<string, string>>,
  all: Readonly<Record<string, string>> = Deno.env.toObject(),
): Record<string, string> {
  const needed = new Set(own.OTEL_DENO === undefined ? [...NEEDED, COVERAGE] : NEEDED);
  const inherited = Object.entries(all).filter(([name]) => {
    const upper = name.toUpperCase();
    return needed.has(upper) || upper.startsWith(NPM_SETTING);
  });
  return { NO_COLOR: "1", ...Object.fromEntries(inherited), ...own };
}
