import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readSendOptions } from "../../cli/_send_options.ts";
import { freePort } from "../../dev/harness/free_port.ts";
import { runDeno } from "../../dev/harness/run.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { SLACK_EXAMPLES } from "../../testing/slack_delivery.ts";
import { STRIPE_EXAMPLES } from "../../testing/stripe_delivery.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { type Result, runHere } from "./_cli.ts";
import { type IntakeApp, startIntakeApp } from "./_connect.ts";

/** Runs `send` with options, and at a path that an argument such as `AT /hook` names. */
type Send = (...args: string[]) => Promise<Result>;

const { signing, gitlab, gitlabToken, messenger } = TEST_SECRETS;

/** Runs a test with `send`, and an app of a platform that listens. */
function testSend(
  platform: "forge" | "messenger" | "slack" | "stripe",
  name: string,
  fn: (send: Send, app: IntakeApp) => Promise<void>,
) {
  testWith(["net", "read"], name, async () => {
    await using app = await startIntakeApp(platform);
    const send: Send = async (...given) => {
      const path = given.find((arg) => arg.startsWith("AT "))?.slice(3) ?? "";
      const args = given.filter((arg) => !arg.startsWith("AT "));
      const variables: Record<string, string> = {
        FORGE_WEBHOOK_SECRET: args.includes("gitlab") ? gitlab : signing,
        FORGE_WEBHOOK_TOKEN: gitlabToken,
        MESSENGER_SECRET_TOKEN: messenger,
        SLACK_SIGNING_SECRET: signing,
        STRIPE_WEBHOOK_SECRET: gitlab,
      };
      const env = (name: string) => variables[name];
      return await runHere(["send", platform, ...args, "--url", app.url + path], { env });
    };
    await fn(send, app);
  });
}

/** Reads the events that are stored, with their payloads. */
async function eventsOf(app: IntakeApp) {
  return (await app.events()).map((event) => ({ ...event, payload: JSON.parse(event.body) }));
}

testSend(
  "forge",
  "send forge sends published examples, and writes the answer",
  async (send, app) => {
    const { code, out } = await send("push");
    assertEquals([code, out.length], [0, 1]);
    assertMatch(out[0]!, /^200 OK {2}[\d.]+ ms {2}id [\da-f-]{36}$/);
    await send("issues.labeled");
    const [push, labeled] = await eventsOf(app);
    assertEquals([push?.type, push?.source], ["push", "github"]);
    assert(push?.payload.repository.full_name);
    assertEquals([labeled?.type, labeled?.payload.action], ["issues", "labeled"]);
  },
);

for (const from of ["github", "gitea", "forgejo", "forge", "gitlab", "gitlab-token"]) {
  testSend(
    "forge",
    `send forge --from ${from} sends as it does, and writes the id`,
    async (send, app) => {
      const isGitlab = from.startsWith("gitlab");
      const args = ["push", "--from", from, ...isGitlab ? ["--file", "deno.json"] : []];
      const { out } = await send(...args, "--json");
      const { id } = JSON.parse(out[0]!);
      assertEquals((await app.store.get(`forge:${id}`))?.deliveryId, id);
      if (!isGitlab) assertEquals((await send(...args, "--form")).code, 0);
      const source = isGitlab ? "gitlab" : from;
      assertEquals(
        (await eventsOf(app)).map((event) => event.source),
        Array(isGitlab ? 1 : 2).fill(source),
      );
    },
  );
}

testSend("forge", "send --file sends a file byte for byte", async (send, app) => {
  const path = await Deno.makeTempFile();
  const text = '\ufeff { "a" :\r\n"\u{1f600}"}\n';
  try {
    await Deno.writeTextFile(path, text);
    await send("push", "--file", path);
  } finally {
    await Deno.remove(path);
  }
  assertEquals((await app.events())[0]?.body, text);
});

testSend(
  "forge",
  "send --repeat sends deliveries of their own, and sums them up",
  async (send, app) => {
    const { out } = await send("push", "--repeat", "30");
    assertEquals(out.length, 21);
    assertMatch(out.at(-1)!, /^30 sent: 30 x 200; median [\d.]+ ms, 99 % within [\d.]+ ms$/);
    assertEquals((await eventsOf(app)).length, 30);
  },
);

testSend("forge", "send --id makes duplicates", async (send, app) => {
  const { out } = await send("push", "--id", "id-1", "--repeat", "2", "--json");
  assertEquals(out.map((line) => JSON.parse(line).status), [200, 200]);
  assertEquals((await eventsOf(app)).length, 1);
});

testSend("messenger", "send messenger writes the update's number", async (send, app) => {
  const [, id] = / id (\d+)$/.exec((await send("message")).out[0]!) ?? [];
  assertEquals((await app.store.get(`messenger:${id}`))?.deliveryId, id);
});

testSend("forge", "send tells what may be wrong with a path", async (send) => {
  const { code, out, err } = await send("push", "--repeat", "2", "AT /hook");
  assertEquals([code, out[0]!.slice(0, 3)], [1, "404"]);
  assertEquals(err, [
    "The app has nothing at /hook: a webhook's path is /webhook, or the 'path' of its platform. " +
    "Give the whole address with --url",
  ]);
});

const FAULTS = {
  ...{ signature: "401 INVALID_SIG", missing: "401 MISSING_SIG", body: "401 INVALID_SIG" },
  json: "400 INVALID_BODY",
};

for (const [fault, answer] of Object.entries(FAULTS)) {
  testSend("forge", `send --bad ${fault} is answered ${answer}`, async (send, app) => {
    const { code, out } = await send("push", "--bad", fault);
    assertEquals(code, 0);
    assert(out[0]?.startsWith(answer));
    assertEquals(await eventsOf(app), []);
  });
}

testSend("forge", "send --bad stale is answered 401 STALE_SIG", async (send) => {
  const args = ["push", "--from", "gitlab", "--file", "deno.json"];
  assertStringIncludes((await send(...args, "--bad", "stale")).out[0]!, "401 STALE_SIG");
});

testSend("forge", "send fails where the app does not answer as it should", async (send) => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/secret`, "another secret");
    const { code, err } = await send("push", "--secret-file", `${folder}/secret`);
    assertEquals([code, err.length], [1, 1]);
    assertStringIncludes(err[0]!, "The app checks with another secret");
  });
});

testSend(
  "messenger",
  "send tells what to do about a user who may not use the app",
  async (send) => {
    const { code, out, err } = await send("message", "--user", "7");
    assertEquals([code, out[0]!.slice(0, 3), err.length], [1, "403", 1]);
    assertStringIncludes(err[0]!, "add this id to its MESSENGER_ALLOWED_USERS");
  },
);

/** Answers some requests with `OK`, and closes the connection of the next without an answer. */
async function answerTimes(listener: Deno.Listener, times: number): Promise<void> {
  const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK";
  for (let i = 0; i <= times; i++) {
    using connection = await listener.accept();
    const buffer = new Uint8Array(65_536);
    let text = "";
    while (!text.trimEnd().endsWith("}")) {
      const count = await connection.read(buffer);
      if (count === null) break;
      text += new TextDecoder().decode(buffer.subarray(0, count));
    }
    if (i < times) await connection.write(new TextEncoder().encode(answer));
  }
}

testWith(["net", "read"], "send sums up also where the app goes away", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const answering = answerTimes(listener, 2);
  const url = `http://127.0.0.1:${(listener.addr as Deno.NetAddr).port}/webhook`;
  const args = ["send", "forge", "push", "--repeat", "5", "--url", url];
  const { out, err } = await runHere(args, { env: () => signing });
  assertStringIncludes(err[0]!, "does not answer");
  await answering;
  assertMatch(out.at(-1)!, /^2 sent: 2 x 200;/);
});

testSend("forge", "send --secret-file takes the secret from a file", async (send) => {
  await withFolder(async (folder) => {
    const path = `${folder}/secret`;
    for (const [end, lines] of [["", 0], ["\n", 1], ["\r\n", 1]] as const) {
      await Deno.writeTextFile(path, signing + end);
      const { code, err } = await send("push", "--secret-file", path);
      assertEquals([code, err.length], [0, lines]);
    }
    await Deno.writeTextFile(path, `${signing}\n\n`);
    assertEquals((await send("push", "--secret-file", path)).code, 1);
    await Deno.writeTextFile(path, "\n");
    assertStringIncludes((await send("push", "--secret-file", path)).err[0]!, "is blank");
  });
});

Deno.test("send takes no secret from the command line, and says what to do", async () => {
  for (const args of [["--secret", "in-the-list"], ["--secret=in-the-list"]]) {
    const { code, out, err } = await runHere(["send", "forge", "push", ...args]);
    assertEquals([code, out, err.length], [2, [], 1]);
    assertStringIncludes(err[0]!, "--secret-file");
    assertStringIncludes(err[0]!, "There is no --secret, since the process list would show it");
    assert(!err[0]!.includes("in-the-list"));
  }
});

testWith(["net"], "send writes nothing of an answer that a terminal would act on", async () => {
  const text = "\x1b]0;a\x07\x9b31m\u202eb\u2028c\u{e0041}d\ne";
  const quiet = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  await using server = Deno.serve(quiet, () => new Response(text));
  const url = `http://127.0.0.1:${server.addr.port}`;
  const env = () => "a secret";
  for (const json of [[], ["--json"]]) {
    const { out } = await runHere(["send", "messenger", "message", "--url", url, ...json], { env });
    assertEquals(out.length, 1);
    assertEquals(out[0]!.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu), null);
    if (json.length > 0) assertEquals(JSON.parse(out[0]!).text, text);
  }
});

testSend("messenger", "send messenger sends a message of a user", async (send, app) => {
  assertEquals((await send("message", "--user", "42", "--text", "hi", "--chat=-7")).code, 0);
  const [event] = await eventsOf(app);
  const { from, chat, text } = event?.payload.message;
  assertEquals([event?.source, from.id, chat.id, text], ["telegram", 42, -7, "hi"]);
  assertEquals((await send("message", "--user", "43")).out[0]?.slice(0, 12), "403 AUTH_001");
});

testSend("messenger", "send messenger --id sends the same update twice", async (send, app) => {
  for (let i = 0; i < 2; i++) assertEquals((await send("message", "--id", "77")).code, 0);
  assertEquals((await eventsOf(app)).length, 1);
  assertEquals((await app.store.get("messenger:77"))?.deliveryId, "77");
});

testSend("messenger", "send messenger sends updates of several kinds", async (send, app) => {
  const kinds = ["edited_message", "callback_query", "inline_query", "message_reaction"];
  for (const kind of [...kinds, "my_chat_member", "poll_answer"]) {
    assertEquals((await send(kind)).code, 0);
  }
  assertEquals((await send("channel_post")).code, 1);
  assertEquals((await eventsOf(app)).length, 6);
});

for (
  const [platform, examples] of [["slack", SLACK_EXAMPLES], ["stripe", STRIPE_EXAMPLES]] as const
) {
  testSend(
    platform,
    `send ${platform} sends each example, and writes its id`,
    async (send, app) => {
      for (const type of Object.keys(examples)) {
        const { code, out } = await send(type, "--json");
        assertEquals(code, 0);
        const { id } = JSON.parse(out[0]!);
        assertEquals((await app.store.get(`${platform}:${id}`))?.type, type);
      }
      assertEquals((await eventsOf(app)).length, Object.keys(examples).length);
    },
  );

  testSend(platform, `send ${platform} --id sends the same delivery twice`, async (send, app) => {
    const type = Object.keys(examples)[0]!;
    for (let i = 0; i < 2; i++) assertEquals((await send(type, "--id", "id-1")).code, 0);
    assertEquals((await app.store.get(`${platform}:id-1`))?.deliveryId, "id-1");
    assertEquals((await eventsOf(app)).length, 1);
  });

  testSend(platform, `send ${platform} --bad sends what is refused`, async (send) => {
    const type = Object.keys(examples)[0]!;
    const codes: Readonly<Record<string, string>> = {
      ...{ signature: "INVALID_SIG", missing: "MISSING_SIG", body: "INVALID_SIG" },
      ...{ stale: "STALE_SIG", json: "INVALID_BODY" },
    };
    for (const [fault, wanted] of Object.entries(codes)) {
      const { code, out } = await send(type, "--bad", fault, "--json");
      assertEquals([code, JSON.parse(out[0]!).code], [0, wanted]);
    }
  });
}

testSend("stripe", "send stripe --file refuses what the file contradicts", async (send, app) => {
  await withFolder(async (folder) => {
    const file = ["--file", `${folder}/event.json`];
    await Deno.writeTextFile(file[1]!, '{"id":"evt_1","object":"event","type":"invoice.paid"}');
    const other = await send("invoice.voided", ...file);
    assertEquals([other.code, other.err], [
      2,
      ['The file has an event of the type "invoice.paid", not "invoice.voided"'],
    ]);
    const numbered = await send("invoice.paid", "--id", "evt_2", ...file);
    assertEquals(numbered.code, 2);
    assertStringIncludes(numbered.err[0]!, "--id: the file has the id");
    assertEquals((await send("invoice.paid", ...file)).code, 0);
    assertEquals((await app.store.get("stripe:evt_1"))?.type, "invoice.paid");
    await Deno.writeTextFile(file[1]!, "no JSON");
    assertEquals((await send("invoice.paid", ...file)).out[0]!.slice(0, 3), "400");
  });
});

const MISTAKES: readonly (readonly [string[], string])[] = [
  [[], "Name the platform"],
  [["gitbucket", "push"], "send signs only for forge, github, "],
  [["toString", "push"], "send signs only for forge, github, "],
  [["standard", "user.created", "--name", "clerk"], "sign others yourself"],
  [["github", "push", "--from", "gitlab"], "--from must be one of github"],
  [["forge"], "Name the event: send forge push"],
  [["forge", "push", "issues"], "Unexpected arguments: issues"],
  [["forge", "pusch"], "There is no example of pusch"],
  [["forge", "issues.pushed"], "its actions are: "],
  [["forge", "push", "--from", "telegram"], "--from must be one of github"],
  [["forge", "push", "--from", "gitlab"], "give a payload with --file"],
  [["forge", "push", "--bad", "luck"], "--bad must be one of signature"],
  [["forge", "push", "--bad", "stale"], "only --from gitlab signs the time"],
  [
    ["messenger", "message", "--id", "abc"],
    '--id of an update must be its number, update_id, got "abc"',
  ],
  [["messenger", "message", "--bad", "body"], "telegram does not sign the body"],
  [["messenger", "message", "--form"], "telegram does not send forms"],
  [["messenger", "message", "--user", "ada"], "--user must be a number"],
  [["messenger", "payment"], "send one of message"],
  [["slack"], "Name the event: send slack app_mention"],
  [["slack", "push"], "There is no example of push: give one with --file, or send one of app_"],
  [["slack", "message", "--form"], "slack sends commands and interactions in forms by itself"],
  [["stripe", "toString"], "send one of invoice.paid"],
  [["stripe", "invoice.paid", "--form"], "stripe does not send forms"],
  [["forge", "push", "--repeat", "0"], "--repeat must be a number"],
  [["forge", "push", "--url", "ftp://x"], "--url (or PORT) must be the app's address"],
  [["forge", "push", "--url", "http://ada:luck@x"], "address, without user and password, such as"],
  [["slack", "message", "--file", "deno.json", "--id", "a"], "--id: the file has the id"],
  [["messenger", "message", "--file", "deno.json", "--id", "1"], "--id: the file has the id"],
  [["forge", "push", "--file", "/no/such/file"], "The file cannot be read"],
  [["forge", "push", "--secret-file", "/no/such/file"], "--secret-file cannot be read: NotFound"],
  [["forge", "push", "--unknown"], "--unknown"],
];

for (const [args, message] of MISTAKES) {
  testWith(["read"], `send explains: ${args.join(" ")}`, async () => {
    const env = (name: string) => name === "PORT" ? undefined : "a secret";
    const { code, err } = await runHere(["send", ...args], { env });
    assertEquals(code, 2);
    assertStringIncludes(err[0]!, message);
  });
}

testWith(["net"], "send tells that nothing listens, and where it looked", async () => {
  const port = freePort();
  const args = ["send", "messenger", "message", "--url", `http://127.0.0.1:${port}`];
  const { code, err } = await runHere(args, { env: () => "a secret" });
  assertEquals([code, err], [1, [
    `Nothing listens at 127.0.0.1:${port}: start the app, or give its address with --url or PORT`,
  ]]);
});

testWith(["net"], "send tells that the app does not answer", async () => {
  using listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const { port } = listener.addr;
  const closing = listener.accept().then((connection) => connection.close());
  const args = ["send", "messenger", "message", "--url", `http://127.0.0.1:${port}`];
  const { code, err } = await runHere(args, { env: () => "a secret" });
  await closing;
  assertEquals(code, 1);
  assertStringIncludes(err[0]!, `The app at 127.0.0.1:${port} does not answer: `);
});

Deno.test("send looks for the apps where they listen by default", () => {
  const urlOf = (platform: string, port?: string) =>
    readSendOptions([platform, "x"], {
      err: () => {},
      env: (name) => name === "PORT" ? port : "a secret",
    })!.url;
  assertEquals(urlOf("forge"), "http://localhost:8000/webhook");
  assertEquals(urlOf("messenger"), "http://localhost:8001/webhook");
  assertEquals(urlOf("telegram"), "http://localhost:8000/webhook");
  assertEquals(urlOf("messenger", "9000"), "http://localhost:9000/webhook");
});

/** Runs `send` in a process of its own, for the app at a port. */
function sendAt(port: number) {
  const main = new URL("../../cli/main.ts", import.meta.url).href;
  const flags = [
    "--cached-only",
    "--quiet",
    "--allow-read",
    "--allow-env",
    "--allow-net=localhost",
  ];
  return runDeno(["run", ...flags, main, "send", "forge", "push"], {
    env: {
      PORT: String(port),
      FORGE_WEBHOOK_SECRET: signing,
      NO_COLOR: "1",
      NO_PROXY: "localhost",
    },
  });
}

testWith(["net", "read", "run", "env"], "send says which app it has found", async () => {
  await using app = await startIntakeApp("forge");
  const { port } = new URL(app.url);
  const { code, stderr } = await sendAt(Number(port));
  assertEquals([code, stderr], [0, `To forge at localhost:${port}`]);
});

testWith(["net", "read", "run", "env"], "send signs nothing for another program", async () => {
  const got: string[] = [];
  const place = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  await using server = Deno.serve(place, ({ method, url }) => {
    got.push(`${method} ${new URL(url).pathname}`);
    return Response.json({ status: "ok" });
  });
  const { port } = server.addr;
  const { code, stderr } = await sendAt(port);
  assertEquals([code, got], [1, ["GET /health"]]);
  assertStringIncludes(stderr, `Another program listens at localhost:${port}: its /health names`);
});

testWith(["read"], "send asks for the variable that the app reads", async () => {
  const wanted = {
    "forge push": "FORGE_WEBHOOK_SECRET",
    "forge push --from gitlab-token": "FORGE_WEBHOOK_TOKEN",
    "messenger message": "MESSENGER_SECRET_TOKEN",
    "github push": "GITHUB_WEBHOOK_SECRET",
    "gitea push --from forgejo": "GITEA_WEBHOOK_SECRET",
    "gitlab push --from gitlab-token": "GITLAB_WEBHOOK_TOKEN",
    "telegram message": "TELEGRAM_SECRET_TOKEN",
    "github push --name second-one": "SECOND_ONE_WEBHOOK_SECRET",
  };
  for (const [line, name] of Object.entries(wanted)) {
    const { err } = await runHere(["send", ...line.split(" ")]);
    assertStringIncludes(err[0]!, `Set ${name}, or name`);
  }
});

testWith(["read", "run"], "the published examples are loaded by send only", async () => {
  const main = new URL("../../cli/main.ts", import.meta.url).href;
  const args = ["info", "--json", "--quiet", main];
  const { stdout } = await new Deno.Command(Deno.execPath(), { args, stderr: "null" }).output();
  const graph = new TextDecoder().decode(stdout);
  assertStringIncludes(graph, "cli/_deliveries.ts");
  assertEquals(JSON.parse(graph).modules.filter(isExamples), []);
});

const isExamples = ({ specifier }: { specifier: string }) =>
  specifier.includes("webhooks-examples");
