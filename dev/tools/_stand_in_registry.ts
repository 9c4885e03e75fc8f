/**
 * A registry on this machine that speaks as much of JSR's protocol as `deno publish`, imports and
 * `deno pack` need: it holds the packages of `links/`, takes publications, and serves both. So what JSR
 * would be sent can be looked at and run where JSR cannot be reached, and without publishing it.
 *
 * @module
 */
import { readTar } from "./_read_tar.ts";

/** A package as the registry holds it. */
export interface Publication {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string>>;
  /** The files by their paths, which begin with a slash. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/** A registry that serves. */
export interface StandInRegistry extends AsyncDisposable {
  /** The value for `JSR_URL`. */
  readonly url: string;
  /** Published packages, by name. */
  readonly published: ReadonlyMap<string, Publication>;
}

const LINKS = new URL("../links/", import.meta.url);

/** Starts a registry on a port that is free. */
export async function startRegistry(): Promise<StandInRegistry> {
  const packages = new Map<string, Publication>();
  for await (const { name } of Deno.readDir(LINKS)) {
    const linked = await readLink(new URL(`${name}/`, LINKS));
    packages.set(linked.name, linked);
  }
  const published = new Map<string, Publication>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/api/")) return answerApi(request, pathname, packages, published);
    return answerFile(pathname, packages);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/`,
    published,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

async function readLink(folder: URL): Promise<Publication> {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for await (const { name } of Deno.readDir(folder)) {
    files.set(`/${name}`, await Deno.readFile(new URL(name, folder)));
  }
  return { ...configOf(files), files };
}

function configOf(files: Publication["files"]): Omit<Publication, "files"> {
  const { name, version, exports } = JSON.parse(new TextDecoder().decode(files.get("/deno.json")));
  return { name, version, exports };
}

/** Calls of `deno publish`: for a new version, for the package, for the upload and for its state. */
async function answerApi(
  request: Request,
  pathname: string,
  packages: Map<string, Publication>,
  published: Map<string, Publication>,
): Promise<Response> {
  const task = { id: "00000000-0000-4000-8000-000000000000", status: "success", error: null };
  const isVersion = pathname.includes("/versions/");
  if (request.method === "GET" && isVersion) {
    const missing = { code: "packageVersionNotFound", message: "There is no such version" };
    return Response.json(missing, { status: 404 });
  }
  if (request.method === "POST" && isVersion) {
    const unpacked = request.body!.pipeThrough(new DecompressionStream("gzip"));
    const files = readTar(await new Response(unpacked).bytes());
    const publication = { ...configOf(files), files };
    packages.set(publication.name, publication);
    published.set(publication.name, publication);
  }
  return Response.json(task);
}

async function answerFile(pathname: string, packages: Map<string, Publication>): Promise<Response> {
  const [, name, path = ""] = /^\/(@[^/]+\/[^/]+)\/(.+)$/.exec(pathname) ?? [];
  const found = packages.get(name ?? "");
  if (found === undefined) return new Response(null, { status: 404 });
  const { version, exports, files } = found;
  if (path === "meta.json") return Response.json({ latest: version, versions: { [version]: {} } });
  if (path === `${version}_meta.json`) {
    return Response.json({ exports, manifest: await manifestOf(files) });
  }
  const file = path.startsWith(`${version}/`) ? files.get(path.slice(version.length)) : undefined;
  if (file === undefined) return new Response(null, { status: 404 });
  return new Response(file, { headers: { "Content-Type": "application/typescript" } });
}

async function manifestOf(files: Publication["files"]): Promise<Record<string, unknown>> {
  const entries = [...files].map(async ([path, bytes]) => {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hex = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return [path, { size: bytes.length, checksum: `sha256-${hex}` }] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}
