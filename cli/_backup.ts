import type { CliRun } from "./_commands.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Mode of a file with payloads: only its owner can read it. */
const FILE_MODE = 0o600;

/** Copies a database into a file, which has its name once it is whole and checked. */
export async function backUp(
  { database, words: [file], values: { json }, world }: CliRun,
): Promise<boolean> {
  if (!database.backup) {
    throw new UsageError(
      "Only a SQLite file is copied by this: pg_dump copies a Postgres database, and sqlite3 the file of a KV",
    );
  }
  const path = file!;
  if (await exists(path)) {
    throw new UsageError(`The file ${path} exists: give the name of a new one`);
  }
  const part = `${path}.${crypto.randomUUID().slice(0, 8)}.part`;
  try {
    (await Deno.open(part, { write: true, createNew: true, mode: FILE_MODE })).close();
    const damage = await database.backup(part);
    if (damage !== undefined) return await putAside(part, damage, world);
    const { size: bytes } = await Deno.stat(part);
    await Deno.rename(part, path);
    world.out(json ? JSON.stringify({ file: path, bytes }) : `${bytes} bytes copied to ${path}`);
    return true;
  } catch (error) {
    await Deno.remove(part).catch(() => {});
    throw error;
  }
}

/** Keeps a copy that is no backup: something may still be read from it. */
async function putAside(part: string, damage: string, world: CliWorld): Promise<boolean> {
  const aside = part.replace(/part$/, "damaged");
  await Deno.rename(part, aside);
  world.err(
    `The copy is damaged, and so is the database: ${damage}. It is left as ${aside}: go back to an earlier backup`,
  );
  return false;
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
}
