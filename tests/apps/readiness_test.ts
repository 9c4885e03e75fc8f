import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, spawnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

testWith(
  APP_NEEDS,
  "an app whose KV fails stays ready: no probe takes all instances out at once",
  async () => {
    await withFolder(async (folder) => {
      const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: `${folder}/kv.db` };
      await using app = spawnApp("forge", env);
      const url = await app.url;
      const other = new DatabaseSync(`${folder}/kv.db`);
      other.exec("BEGIN IMMEDIATE");
      const { status, headers } = await deliver(app, "d1");
      assertEquals([status, headers.has("Retry-After")], [503, true]);
      for (const path of ["/health", "/health/live", "/health/ready"]) {
        const response = await fetch(`${url}${path}`);
        assertEquals([path, response.status, (await response.json()).status], [path, 200, "ok"]);
      }
      other.exec("ROLLBACK");
      other.close();
    });
  },
);
