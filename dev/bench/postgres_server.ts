import {
  initDatabase,
  owner,
  postgresPath,
  startServer,
} from "../../tests/events/store/postgres/_server.ts";
import { pause } from "../harness/until.ts";

export { postgresPath };

/**
 * Runs something with an empty Postgres database, on a server with the settings that it has by default.
 *
 * @param fn The function. It gets the URL of the database.
 * @returns Its result.
 */
export async function withPostgres<T>(fn: (url: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "postgres-" });
  const user = await owner(folder);
  await initDatabase(`${folder}/data`, user);
  const { url, pid } = await startServer(folder, user, { settings: [] });
  try {
    return await fn(url);
  } finally {
    Deno.kill(pid, "SIGINT");
    while (await isThere(`${folder}/data/postmaster.pid`)) await pause(10);
    await Deno.remove(folder, { recursive: true });
  }
}

function isThere(path: string): Promise<boolean> {
  return Deno.stat(path).then(() => true, () => false);
}
