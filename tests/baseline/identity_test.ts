/** Identity and limits: who is counted, and who is not kept out. See `_rows.ts`. */
import { runDeno } from "../../dev/harness/run.ts";
import { forgeDelivery } from "../_deliveries.ts";
import { FORGED } from "../apps/_raw.ts";
import { running, testRow } from "./_rows.ts";
import { startEdgeBase } from "./_subject.ts";

testRow({
  what: "an attacker who makes addresses up is limited",
  probe: running(async ({ send }) => {
    for (let i = 0; i < 150; i++) {
      const headers = { ...FORGED, "X-Forwarded-For": `192.0.2.${i}` };
      if ((await send(forgeDelivery("{}", headers)))?.status === 429) return "limited";
    }
    return "never limited";
  }),
  wanted: "limited",
  baseline: "never limited",
});

testRow({
  what: "2,000 genuine deliveries from one address are all taken",
  probe: running(async ({ send }) => {
    const delivery = async () => (await send(forgeDelivery("{}")))?.status;
    const answers: unknown[] = [];
    for (let i = 0; i < 100; i++) {
      answers.push(...await Promise.all(Array.from({ length: 20 }, delivery)));
    }
    return answers.filter((status) => status === 200).length;
  }),
  wanted: 2_000,
  baseline: 100,
});

testRow({
  what: "300,000 addresses take no more than 20 MiB",
  probe: async (start) => {
    const subject = start === startEdgeBase ? "edge-base" : "baseline";
    const script = new URL("../../dev/bench/baseline/addresses.ts", import.meta.url).href;
    const flags = ["--cached-only", "--quiet", "-A", "--v8-flags=--expose-gc"];
    const { code, stdout, stderr } = await runDeno(["run", ...flags, script, subject]);
    if (code !== 0) throw new Error(stderr);
    const mib = Number(stdout);
    return mib <= 20 ? "at most 20 MiB" : mib > 60 ? "over 60 MiB" : `${mib} MiB`;
  },
  wanted: "at most 20 MiB",
  baseline: "over 60 MiB",
});

testRow({
  what: "it does not start if a header that anyone can send would end the process",
  probe: async (start) => {
    await using subject = await start({ env: { DENO_TRUST_PROXY_HEADERS: "1" } });
    if (subject === undefined) return "it does not start";
    const { send } = subject;
    await send({ headers: { "X-Deno-Client-Address": "no address" } }, "/address");
    return (await send({}, "/health"))?.status ?? "it has ended";
  },
  wanted: "it does not start",
  baseline: "it has ended",
});
