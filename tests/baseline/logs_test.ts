/** Logs: bounded, and in nobody else's hand. See `_rows.ts`. */
import { forgeDelivery } from "../_deliveries.ts";
import { FORGED } from "../apps/_raw.ts";
import { running, testRow } from "./_rows.ts";

testRow({
  what: "a flood of bad signatures is summed up in the log",
  probe: running(async ({ send, output }) => {
    const forged = forgeDelivery("{}", FORGED);
    for (let i = 0; i < 100; i++) {
      await Promise.all(Array.from({ length: 20 }, () => send(forged)));
    }
    return output.length < 1_000 ? "under 1,000 lines of 2,000" : "a line each";
  }),
  wanted: "under 1,000 lines of 2,000",
  baseline: "a line each",
});

testRow({
  what: "a request id of another's is kept only if it is short and plain",
  probe: running(async ({ send }) => {
    const kept: boolean[] = [];
    for (const id of ["plain-1", "x".repeat(200), "a b", "<script>"]) {
      const answer = await send({ headers: { "X-Request-Id": id } }, "/health");
      kept.push(answer?.headers.get("X-Request-Id") === id);
    }
    return kept;
  }),
  wanted: [true, false, false, false],
  baseline: [true, true, false, false],
});

testRow({
  what: "a secret in a query string is not logged",
  probe: running(async ({ send, output, process, ended }) => {
    await send({}, "/health?token=a-secret-in-a-query");
    process.kill("SIGTERM");
    await ended;
    const logged = output.join("\n");
    const found = logged.includes("a-secret-in-a-query") ? "with its query" : "without its query";
    return logged.includes("/health") ? found : "not at all";
  }),
  wanted: "without its query",
  baseline: "with its query",
});
