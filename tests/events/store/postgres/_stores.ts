import type { EventStore } from "../../../../events/mod.ts";
import type { PostgresReader, PostgresTx } from "../../../../events/store/postgres/mod.ts";
import { POSTGRES, type PostgresPlace } from "../engines/postgres.ts";
import { testKind } from "../contract/_contract.ts";

/** A store in a schema, with the types of what it gives. */
export interface PostgresStoreUnderTest {
  readonly store: EventStore<PostgresTx, PostgresReader>;
  readonly place: PostgresPlace;
}

/** Registers a test of a store in an empty schema. */
export function testPostgres(
  name: string,
  fn: (sut: PostgresStoreUnderTest) => Promise<void>,
): void {
  testKind(POSTGRES, POSTGRES.kinds[0], name, async ({ store, place }) => {
    await fn({ store: store as unknown as EventStore<PostgresTx, PostgresReader>, place });
  }, {});
}
