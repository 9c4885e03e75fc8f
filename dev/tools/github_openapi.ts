/**
 * Cuts the part of GitHub's OpenAPI description that the tests of `catch_up/` are held to out of the package
 * `@octokit/openapi`, which unpacks to over 400 MB and so is no dependency.
 *
 * ```sh
 * npm pack @octokit/openapi@23.0.2 && tar xzf octokit-openapi-23.0.2.tgz
 * deno run --allow-read --allow-write dev/tools/github_openapi.ts package/generated/api.github.com.json
 * ```
 *
 * @module
 */

/** Operations that are kept. */
const OPERATIONS = [
  ...["/repos/{owner}/{repo}", "/orgs/{org}"].flatMap((owner) => [
    ["get", `${owner}/hooks`],
    ["get", `${owner}/hooks/{hook_id}/deliveries`],
    ["post", `${owner}/hooks/{hook_id}/deliveries/{delivery_id}/attempts`],
  ]),
  ["get", "/app/hook/deliveries"],
  ["post", "/app/hook/deliveries/{delivery_id}/attempts"],
  ["post", "/app/installations/{installation_id}/access_tokens"],
] as const;

const OUT = new URL("../../tests/catch_up/github_openapi.json", import.meta.url);

// deno-lint-ignore no-explicit-any -- The description is a tree of any form.
type Tree = any;

const whole: Tree = JSON.parse(await Deno.readTextFile(Deno.args[0]!));
const { openapi, info } = whole;
const part: Tree = { openapi, info, paths: {}, components: {} };

function take(tree: Tree): void {
  if (typeof tree !== "object" || tree === null) return;
  delete tree.examples;
  const [, , kind, name] = typeof tree.$ref === "string" ? tree.$ref.split("/") : [];
  if (kind !== undefined) {
    const kept = part.components[kind] ??= {};
    if (!(name in kept)) {
      kept[name] = whole.components[kind][name];
      take(kept[name]);
    }
  }
  for (const each of Object.values(tree)) take(each);
}

for (const [method, path] of OPERATIONS as unknown as [string, string][]) {
  const operation = whole.paths[path][method];
  take(operation);
  (part.paths[path] ??= {})[method] = operation;
}
await Deno.writeTextFile(OUT, `${JSON.stringify(part, null, 2)}\n`);
