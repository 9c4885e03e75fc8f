import { assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { handled, openOn, testServer } from "../events/store/postgres/_faulty_app.ts";
import { OwnPostgres, runTo } from "../events/store/postgres/_own_server.ts";
import { postgresPath } from "../events/store/postgres/_server.ts";

const SOON_MS = 30_000;

/** Makes a standby, which follows a server without being waited for. */
function startStandby(primary: OwnPostgres): Promise<OwnPostgres> {
  return OwnPostgres.start({
    settings: ["hot_standby=on"],
    make: async (folder, user) => {
      const program = `${postgresPath()}/pg_basebackup`;
      const args = ["-d", primary.direct, "-D", `${folder}/data`, "-R", "-c", "fast", "-N"];
      await runTo(program, args, user);
    },
  });
}

const ids = (name: string) => Array.from({ length: 10 }, (_, i) => `${name}${i}`);

testServer(
  "a failover loses what the standby had not got, and a redelivery brings it back",
  async (primary) => {
    await using standby = await startStandby(primary);
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    await using app = await openOn(primary.url, {
      effects: async (_, id) => {
        if (id === "held") await gate;
      },
    });
    const deliverAll = async (all: readonly string[]) => {
      for (const id of all) assertEquals([id, (await app.deliver(id)).status], [id, 200]);
    };
    const untilDone = (all: readonly string[]) =>
      until(async () => {
        const events = await Promise.all(all.map((id) => app.store.get(`forge:${id}`)));
        return events.every((event) => event?.state === "done");
      }, SOON_MS);

    await deliverAll([...ids("copied"), "held"]);
    await untilDone(ids("copied"));
    await until(async () => {
      const [row] = await standby.sql(
        "select count(*)::int as n from edge_base.event where state = 'done'",
      );
      return row!.n === 10;
    }, SOON_MS);

    // From now on the standby gets nothing.
    await standby.sql("alter system set primary_conninfo = ''");
    await standby.sql("select pg_reload_conf()");
    await until(async () => {
      return (await primary.sql("select 1 from pg_stat_replication")).length === 0;
    }, SOON_MS);
    await deliverAll(ids("lost"));
    open();
    await untilDone([...ids("lost"), "held"]);
    assertEquals((await handled(primary)).length, 21);

    // It takes over, by the address of the first one.
    await primary.stop("immediate");
    assertEquals((await app.deliver("meanwhile")).status, 503);
    await standby.promote(primary.port);
    await until(async () => (await app.deliver("after")).status === 200, SOON_MS);
    await untilDone(["after", "held"]);
    assertEquals(await handled(standby), [...ids("copied"), "after", "held"].toSorted());
    assertEquals(await app.store.get("forge:lost0"), null);

    await deliverAll([...ids("lost"), ...ids("copied"), "held"]);
    await untilDone(ids("lost"));
    assertEquals(
      await handled(standby),
      [...ids("copied"), ...ids("lost"), "after", "held"].toSorted(),
    );
  },
);
