/**
 * A process that opens a schema as an app does, and so brings it to the latest layout, until it is killed.
 *
 * The arguments are the URL of the database and the schema.
 */
import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";

const [url, schema] = Deno.args as [string, string];
await OpenDatabase.open(addressIn(url).settings, { schema, handlers: 1, buildsIndexes: true });
setInterval(() => {}, 1_000);
