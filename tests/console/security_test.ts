import { createHash, createHmac } from "node:crypto";
import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { Front } from "../../console/_http.ts";
import { Sessions, type Tokens } from "../../console/_login.ts";
import { newActId } from "../../console/_query.ts";
import { claim, delivery, openBoard, OPERATOR, ORIGIN, storeDead, VIEWER } from "./_board.ts";

const PAGES = [
  "/",
  "/deliveries",
  "/delivery?id=x",
  "/payload?id=x",
  "/limits",
  "/problems",
  "/problem?id=1",
  "/acts",
  "/progress?id=x",
];
const HOSTILE = `"><script>alert(1)</script><img src=x onerror=alert(2)>'`;

Deno.test("the console leads who has not logged in to the login", async () => {
  await using board = await openBoard();
  for (const page of [...PAGES, "/act?kind=replay&id=x", "/nothing", "/send"]) {
    const response = await board.get(page);
    assertEquals(response.status, 303, page);
    assertMatch(response.headers.get("Location")!, /^login(\?next=[\w%.+-]+)?$/);
  }
});

Deno.test("the login leads on to the page that was asked for", async () => {
  await using board = await openBoard();
  const others = ["refusals", "wake?id=x", "repeat?id=x"];
  for (const page of ["./", "./?period=day", "deliveries?state=dead", "send", ...others]) {
    const response = await board.get(`/${page.replace("./", "")}`);
    assertEquals(
      response.headers.get("Location"),
      `login?${new URLSearchParams({ next: page })}`,
    );
    const login = await (await board.get(`/${response.headers.get("Location")}`)).text();
    assertStringIncludes(login, `<a data-next href="${page}">`);
  }
  assertEquals((await board.get("/payload?id=x")).headers.get("Location"), "login");
});

Deno.test("the console turns a token into a signed cookie that scripts and other sites do not get", async () => {
  await using board = await openBoard();
  const response = await board.post("/login", { token: OPERATOR });
  assertEquals([response.status, response.headers.get("Location")], [303, "./"]);
  const cookie = response.headers.get("Set-Cookie")!;
  assertMatch(
    cookie,
    /^console-bot-[0-9a-f]{8}=operator\.[\w]+\.[0-9a-f]{16}\.[\w-]{43}; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  );
  assertEquals((await board.get("/", { Cookie: cookie.split(";")[0]! })).status, 200);
});

Deno.test("the console has browsers send the cookie over https only, if they came that way", async () => {
  await using board = await openBoard({ trustedProxyHops: 1 });
  const proxied = { "X-Forwarded-Proto": "https", Origin: "https://bot.example" };
  const response = await board.post("/login", { token: VIEWER }, proxied);
  assertMatch(
    response.headers.get("Set-Cookie")!,
    /^__Secure-console-bot-[0-9a-f]{8}=viewer\..*; Secure$/,
  );
});

Deno.test("the console believes no proxy that is not trusted", async () => {
  await using board = await openBoard();
  const spoofed = { "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example" };
  const response = await board.post("/login", { token: VIEWER }, spoofed);
  assert(!response.headers.get("Set-Cookie")!.includes("Secure"));
  const evil = { ...spoofed, Origin: "http://evil.example" };
  assertEquals((await board.post("/login", { token: VIEWER }, evil)).status, 403);
});

Deno.test("the console takes no wrong token, and says so alike for all", async () => {
  await using board = await openBoard();
  const texts = new Set<string>();
  for (const token of ["", "x", `${OPERATOR}x`, OPERATOR.slice(1), "é".repeat(400)]) {
    const response = await board.post("/login", { token }, { remote: crypto.randomUUID() });
    assertEquals([response.status, response.headers.get("Set-Cookie")], [403, null]);
    texts.add(await response.text());
  }
  assertEquals(texts.size, 1);
});

Deno.test("the console limits the tries of an address, also with the right token", async () => {
  await using board = await openBoard();
  for (let i = 0; i < 10; i++) await board.post("/login", { token: "wrong" });
  const response = await board.post("/login", { token: OPERATOR });
  assertEquals([response.status, response.headers.get("Set-Cookie")], [429, null]);
  assertMatch(response.headers.get("Retry-After")!, /^\d{1,2}$/);
  const other = await board.post("/login", { token: OPERATOR }, { remote: "192.0.2.2" });
  assertEquals(other.status, 303);
});

Deno.test("wrong tokens of others keep nobody from logging in", async () => {
  await using board = await openBoard({ trustedProxyHops: 1 });
  const from = (i: number) => ({ "X-Forwarded-For": `203.0.113.${i}` });
  for (let i = 0; i < 250; i++) await board.post("/login", { token: "wrong" }, from(i));
  assertEquals((await board.post("/login", { token: OPERATOR }, from(250))).status, 303);
});

Deno.test("apps and environments on one host have cookies of their own", async () => {
  const nameOf = async (options: Parameters<typeof openBoard>[0]) => {
    await using board = await openBoard(options);
    return (await board.login()).split("=")[0];
  };
  const names = [{}, { name: "a.b" }, { name: "a-b" }, { viewerToken: OPERATOR.toUpperCase() }];
  const found = await Promise.all(names.map(nameOf));
  assertEquals(new Set(found).size, 4);
});

Deno.test("over https the console takes no cookie that came without it, and deletes both", async () => {
  await using board = await openBoard({ trustedProxyHops: 1 });
  const plain = await board.login();
  const https = { "X-Forwarded-Proto": "https", Origin: "https://bot.example" };
  const secure = (await board.post("/login", { token: OPERATOR }, https)).headers
    .get("Set-Cookie")!.split(";")[0]!;
  const statusOf = async (Cookie: string) =>
    (await board.get("/", { "X-Forwarded-Proto": "https", Cookie })).status;
  assertEquals([await statusOf(plain), await statusOf(secure)], [303, 200]);
  const logout = await board.post("/logout", {}, { ...https, Cookie: secure });
  const deleted = logout.headers.getSetCookie().map((each) => each.split("=")[0]);
  assertEquals(deleted, [secure.split("=")[0], plain.split("=")[0]]);
});

Deno.test("a session ends within twelve hours", () => {
  using time = new FakeTime(Date.UTC(2026, 0, 1));
  const sessions = new Sessions("bot", { operatorToken: OPERATOR });
  const value = sessions.begin("operator");
  time.tick(12 * 3_600_000 - 60_001);
  assertEquals(sessions.read(value)?.role, "operator");
  time.tick(1);
  assertEquals(sessions.read(value), undefined);
});

Deno.test("a session of an instance whose clock is ahead is valid at once", () => {
  const sessions = new Sessions("bot", { operatorToken: OPERATOR });
  const value = sessions.begin("operator", 1_000_000_060_000);
  assertEquals(sessions.read(value, 1_000_000_000_000)?.role, "operator");
  assertEquals(sessions.read(value, 999_999_999_999), undefined);
});

Deno.test("a session ends when the token of its role changes, and is of no use at another app", () => {
  const tokens = { viewerToken: VIEWER, operatorToken: OPERATOR };
  const begun = new Sessions("bot", tokens);
  const [viewer, operator] = [begun.begin("viewer"), begun.begin("operator")];
  const read = (name: string, tokens: Tokens) =>
    [viewer, operator].map((value) => new Sessions(name, tokens).read(value)?.role);
  assertEquals(read("bot", tokens), ["viewer", "operator"]);
  assertEquals(read("bot", { ...tokens, operatorToken: `${VIEWER}x` }), ["viewer", undefined]);
  assertEquals(read("bot", { viewerToken: VIEWER }), ["viewer", undefined]);
  assertEquals(read("bot", { operatorToken: OPERATOR }), [undefined, "operator"]);
  assertEquals(read("bot", { viewerToken: OPERATOR, operatorToken: VIEWER }), [
    undefined,
    undefined,
  ]);
  assertEquals(read("other", tokens), [undefined, undefined]);
});

/** Keys that somebody could sign sessions with who knows some tokens, and reads this code and what was before it. */
function* keysOf(known: readonly string[]): Generator<string | Uint8Array> {
  yield "";
  const hash = (text: string) => new Uint8Array(createHash("sha256").update(text).digest());
  const none = [0, null, "", undefined];
  for (const token of known) {
    yield* [token, hash(token)];
    for (const role of ["viewer", "operator", "", null, 0]) {
      yield hash(JSON.stringify(["console session", "bot", role, token]));
    }
  }
  for (const viewer of [...known, ...none]) {
    for (const operator of [...known, ...none]) {
      yield hash(JSON.stringify(["console session", "bot", viewer, operator]));
    }
  }
}

Deno.test("a viewer forges no operator's session, whatever tokens are set", () => {
  const ends = [1_000, 43_200_000, 10 * 365 * 86_400_000];
  for (const operatorToken of [undefined, OPERATOR]) {
    const sessions = new Sessions("bot", { viewerToken: VIEWER, operatorToken });
    for (const key of keysOf([VIEWER, VIEWER.toUpperCase(), sessions.id])) {
      for (const end of ends) {
        const content = `operator.${(Date.now() + end).toString(36)}.${"ab".repeat(8)}`;
        const signature = createHmac("sha256", key).update(content).digest("base64url");
        assertEquals(sessions.read(`${content}.${signature}`), undefined);
      }
    }
  }
});

Deno.test("whoever knows a token makes no session of it that lasts longer", () => {
  const key = createHash("sha256")
    .update(JSON.stringify(["console session", "bot", "viewer", VIEWER])).digest();
  const sessions = new Sessions("bot", { viewerToken: VIEWER });
  const roleFor = (ms: number) => {
    const content = `viewer.${(Date.now() + ms).toString(36)}.${"ab".repeat(8)}`;
    const signature = createHmac("sha256", key).update(content).digest("base64url");
    return sessions.read(`${content}.${signature}`)?.role;
  };
  assertEquals([12 * 3_600_000 - 1_000, 12 * 3_600_000 + 1_000].map(roleFor), [
    "viewer",
    undefined,
  ]);
});

Deno.test("the name of the cookie says nothing of an operator's token", () => {
  const idOf = (tokens: Tokens) => new Sessions("bot", tokens).id;
  const id = idOf({ viewerToken: VIEWER });
  assertEquals(idOf({ viewerToken: VIEWER, operatorToken: OPERATOR }), id);
  assertNotEquals(idOf({ operatorToken: OPERATOR }), id);
});

Deno.test("the console takes no cookie that was changed", async () => {
  await using board = await openBoard();
  const cookie = await board.login(VIEWER);
  const [name, value] = cookie.split("=") as [string, string];
  const changed = [
    value.replace("viewer", "operator"),
    value.replace("viewer", "Viewer"),
    value.replace("viewer", "toString"),
    value.replace(/\.[0-9a-z]{8}\./, ".zzzzzzzz."),
    value.slice(0, -1),
    `${value}x`,
    value.replace(/[\w-]{43}$/, "A".repeat(43)),
    "",
    "x".repeat(5_000),
  ];
  for (const each of changed) {
    assertEquals((await board.get("/", { Cookie: `${name}=${each}` })).status, 303, each);
  }
  assertEquals((await board.get("/", { Cookie: cookie })).status, 200);
});

Deno.test("the console takes forms from its own pages only", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login();
  const others: Record<string, string | undefined>[] = [
    { Origin: undefined },
    { Origin: "null" },
    { Origin: "http://evil.example" },
    { Origin: "http://bot.example.evil.example" },
    { Origin: "http://bot.example:8080" },
    { Origin: "file://bot.example" },
    { "Sec-Fetch-Site": "cross-site" },
    { "Sec-Fetch-Site": "same-site" },
    { "Sec-Fetch-Site": "none" },
  ];
  for (const headers of others) {
    const fields = { kind: "purge", id };
    const response = await board.post("/act", fields, { Cookie, ...headers });
    assertEquals(response.status, 403, JSON.stringify(headers));
    assertEquals((await board.post("/login", { token: OPERATOR }, headers)).status, 403);
  }
  assertEquals((await board.store.get(id))?.state, "dead");
  const own = { Cookie, "Sec-Fetch-Site": "same-origin" };
  const fields = { kind: "purge", id, act: newActId() };
  assertEquals((await board.post("/act", fields, own)).status, 303);
  assertEquals(await board.store.get(id), null);
});

/** Tells whether a login is taken with these headers. */
async function takes(
  headers: Record<string, string | undefined>,
  trustedProxyHops = 0,
  front: Front = trustedProxyHops > 0 ? "proxy" : "nothing",
): Promise<boolean> {
  await using board = await openBoard({ trustedProxyHops, front });
  const { status } = await board.post("/login", { token: OPERATOR }, headers);
  assert(status === 303 || status === 403, String(status));
  return status === 303;
}

Deno.test("the console compares the scheme of a form's page with that of the connection", async () => {
  const https = "https://bot.example";
  assertEquals(await takes({ Origin: https }), false);
  assertEquals(await takes({ Origin: https, "X-Forwarded-Proto": "https" }), false);
  assertEquals(await takes({ Origin: https }, 1), false);
  for (const scheme of ["https", "HTTPS", "http, https"]) {
    assertEquals(await takes({ Origin: https, "X-Forwarded-Proto": scheme }, 1), true, scheme);
    const plain = { Origin: ORIGIN, "X-Forwarded-Proto": scheme };
    assertEquals(await takes(plain, 1), false, scheme);
  }
  for (const scheme of ["http", "https, http", "", "wss", "https://evil.example/#"]) {
    assertEquals(await takes({ Origin: https, "X-Forwarded-Proto": scheme }, 1), false, scheme);
  }
});

Deno.test("on Deno Deploy, which does not tell the scheme, the console compares the host", async () => {
  for (const scheme of ["http", "https"]) {
    assertEquals(await takes({ Origin: `${scheme}://bot.example` }, 0, "deploy"), true);
    const forwarded = { "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": scheme };
    assertEquals(
      await takes({ Origin: `${scheme}://bot.example`, ...forwarded }, 0, "deploy"),
      true,
    );
    assertEquals(
      await takes({ Origin: `${scheme}://evil.example`, ...forwarded }, 0, "deploy"),
      false,
    );
  }
  assertEquals(await takes({ Origin: "gopher://bot.example" }, 0, "deploy"), false);
});

Deno.test("the console takes forms for hosts with a port, as browsers spell them", async () => {
  const tls = { Origin: "https://bot.example", "X-Forwarded-Proto": "https" };
  assertEquals(await takes({ ...tls, Host: "bot.example:443" }, 1), true);
  assertEquals(await takes({ Origin: "http://bot.example", Host: "BOT.example:80" }), true);
  assertEquals(await takes({ Origin: "http://bot.example:443", Host: "bot.example:443" }), true);
  assertEquals(await takes({ Origin: "http://[::1]:8000", Host: "[::1]:8000" }), true);
});

Deno.test("a forwarded host takes no form that the request's own host does not", async () => {
  const evil = "http://evil.example";
  assertEquals(await takes({ "X-Forwarded-Host": "bot.example" }, 1), true);
  assertEquals(await takes({ "X-Forwarded-Host": "evil.example, bot.example" }, 1), true);
  assertEquals(await takes({ Origin: evil, "X-Forwarded-Host": "evil.example" }, 1), false);
  assertEquals(await takes({ Origin: evil, "X-Forwarded-Host": "bot.example" }, 1), false);
  assertEquals(await takes({ "X-Forwarded-Host": "evil.example" }, 1), false);
  assertEquals(await takes({ "X-Forwarded-Host": "" }, 1), false);
  assertEquals(await takes({ "X-Forwarded-Host": "evil.example" }), true);
});

Deno.test("the console takes an origin in one spelling only", async () => {
  for (
    const Origin of [
      "http://evil@bot.example",
      "http://bot.example/",
      "http://bot.example/x",
      "http://BOT.example",
      "http://bot.example, http://evil.example",
      "http://evil.example, http://bot.example",
      "http://bot.example http://evil.example",
      "http:bot.example",
      "bot.example",
      "",
    ]
  ) assertEquals(await takes({ Origin }), false, Origin);
});

Deno.test("the console changes nothing by a GET", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login();
  for (const kind of ["replay", "cancel", "purge"]) {
    for (const what of [`id=${id}`, "state=dead", "state=queued"]) {
      for (const page of ["act", "progress", "delivery", "logout", "send"]) {
        await (await board.get(`/${page}?kind=${kind}&${what}`, { Cookie })).text();
      }
    }
  }
  assertEquals((await board.store.get(id))?.state, "dead");
  assertEquals((await board.get("/", { Cookie })).status, 200);
  const logout = await board.get("/logout", { Cookie });
  assertEquals([logout.status, logout.headers.get("Allow")], [405, "POST"]);
});

Deno.test("a viewer may not act", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login(VIEWER);
  const forms = [{ kind: "replay", id }, { kind: "purge", state: "dead", before: "9999999999999" }];
  for (const fields of forms) {
    const query = new URLSearchParams(fields as Record<string, string>);
    assertEquals((await board.get(`/act?${query}`, { Cookie })).status, 403);
    const form = fields as Record<string, string>;
    assertEquals((await board.post("/act", form, { Cookie })).status, 403);
  }
  assertEquals((await board.store.get(id))?.state, "dead");
  const page = await (await board.get(`/delivery?id=${id}`, { Cookie })).text();
  assert(!page.includes("Replay"));
});

Deno.test("each page forbids what a page could be abused for", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  for (const page of [...PAGES, "/login", "/nothing", "/deliveries?state=x"]) {
    const { headers } = await board.get(page, { Cookie });
    const policy = headers.get("Content-Security-Policy")!;
    assertStringIncludes(policy, "default-src 'none'");
    assertStringIncludes(policy, "frame-ancestors 'none'");
    assert(!/unsafe|\*|data:|http/.test(policy), policy);
    assertEquals(headers.get("Referrer-Policy"), "same-origin");
    assertEquals(headers.get("X-Content-Type-Options"), "nosniff");
    assertMatch(headers.get("Cache-Control")!, /^no-store(, no-transform)?$/);
    assertEquals(headers.get("Access-Control-Allow-Origin"), null);
  }
});

Deno.test("pages have no script, style or handler of their own", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login();
  for (const page of [...PAGES, `/delivery?id=${id}`, `/act?kind=replay&id=${id}`, "/login"]) {
    const html = await (await board.get(page, { Cookie })).text();
    assert(
      !/<style|\sstyle=|\son\w+=|javascript:|<script(?! src="script-[0-9a-f]{12}\.js" defer>)/i
        .test(html),
    );
  }
});

// CVE-2024-32887 (Sidekiq: `substr`), CVE-2023-1892 (Sidekiq: `period`), CVE-2022-44303 (Resque: names of
// queues and classes in the path), CVE-2024-25122 (sidekiq-unique-jobs: `filter`), CVE-2017-12097
// (delayed_job_web: `queues`).
Deno.test("the console reflects no parameter as markup", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const names = [
    ...["state", "type", "source", "place", "group", "from", "before", "id", "cursor", "period"],
    ...[
      "kind",
      "of",
      "next",
      "problem",
      "substr",
      "filter",
      "queues",
      "refresh",
      "page",
      "platform",
    ],
  ];
  for (
    const page of [
      "",
      "deliveries",
      "delivery",
      "payload",
      "limits",
      "problems",
      "problem",
      "acts",
      "act",
      "progress",
      "login",
    ]
  ) {
    for (const name of names) {
      const query = new URLSearchParams({ [name]: HOSTILE });
      const html = await (await board.get(`/${page}?${query}`, { Cookie })).text();
      assert(!/<script>|<img/.test(html), `${page} ${name}`);
    }
    const path = await board.get(`/${page}${encodeURIComponent(HOSTILE)}`, { Cookie });
    assert(!(await path.text()).includes("alert("));
  }
});

Deno.test("the console shows names that senders chose as text", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const id = await storeDead(board.store, HOSTILE, {
    ...{ type: HOSTILE, action: HOSTILE, source: HOSTILE, orderingKey: HOSTILE },
    repository: { id: 1, fullName: HOSTILE, owner: HOSTILE, name: HOSTILE },
    sender: { id: 1, name: `\u202e${HOSTILE}`, isBot: false },
    body: new TextEncoder().encode(
      JSON.stringify({ [HOSTILE]: HOSTILE, "\u202e": "\u2028</pre>" }),
    ),
  }, new Error(HOSTILE));
  const query = new URLSearchParams({ id });
  await board.store.tokens.of(HOSTILE, `\u202e${HOSTILE}`).closeFor(60_000);
  await board.store.accept(delivery("2"));
  const limited = { delayMs: 60_000, isLimited: true, limit: `\u202e${HOSTILE}` };
  await board.store.release(await claim(board.store), limited);
  const pages = ["/deliveries", `/delivery?${query}`, `/act?kind=purge&${query}`];
  pages.push("/limits", "/delivery?id=github:2");
  for (const page of pages) {
    const html = await (await board.get(page, { Cookie })).text();
    assertStringIncludes(html, "alert(1)");
    assert(!/<script>|<img|\u202e|\u2028/.test(html), page);
  }
});

// CVE-2023-26141 (Sidekiq: a poll interval that the page took from its address).
Deno.test("the console has no parameter for how often it refreshes", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const names = ["refresh", "poll", "interval", "pollInterval", "live"];
  const plain = await (await board.get("/deliveries", { Cookie })).text();
  for (const name of names) {
    for (const value of ["0", "1", "-1", "1e99"]) {
      const page = await (await board.get(`/deliveries?${name}=${value}`, { Cookie })).text();
      assertEquals(page, plain);
    }
  }
  const [, script] = /src="(script-[^"]+)"/.exec(plain)!;
  const code = await (await board.get(`/${script}`)).text();
  assert(!/searchParams|location\.(search|hash)/.test(code));
});

Deno.test("the console bounds every parameter, and repeats none that is wrong", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const wrong = [
    "deliveries?state=zombie",
    `deliveries?type=${"x".repeat(101)}`,
    `deliveries?group=${"x".repeat(601)}`,
    `deliveries?cursor=${"x".repeat(2_001)}`,
    "deliveries?cursor=zombie",
    "deliveries?from=zombie",
    "deliveries?before=2026-99-99T00:00",
    "deliveries?before=2026-02-31T00:00",
    "act?kind=purge&state=dead&from=99999999999999&before=1",
    "deliveries?before=999999999999999",
    "deliveries?type=a%00b",
    "deliveries?type=a&type=b",
    "?period=zombie",
    "act?kind=zombie&id=x",
    "act?kind=replay",
    "act?kind=replay&state=queued",
    `delivery?id=${"x".repeat(1_001)}`,
  ];
  for (const page of wrong) {
    const response = await board.get(`/${page}`, { Cookie });
    assertEquals(response.status, 400, page);
    assert(!/zombie|xxxx/.test(await response.text()), page);
  }
});

Deno.test("the console reads no form that is too large, and none that is something else", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const large = await board.post("/act", { kind: "replay", id: "x".repeat(20_000) }, { Cookie });
  assertEquals(large.status, 400);
  assertEquals((await board.post("/login", { token: "x".repeat(4_096) })).status, 400);
  const json = { Cookie, "Content-Type": "application/json" };
  assertEquals((await board.post("/act", { kind: "replay", id: "x" }, json)).status, 400);
});

Deno.test("the longest token and the longest page to go on to fit into the form of a login", async () => {
  const operatorToken = "€äöü#&%+".repeat(32);
  await using board = await openBoard({ operatorToken });
  for (const each of ["x", "&", "%", "€"]) {
    const page = `/deliveries?group=${encodeURIComponent(each.repeat(300)).slice(0, 980)}`;
    const to = (await board.get(page)).headers.get("Location")!;
    const next = new URLSearchParams(to.split("?")[1]).get("next") ?? "./";
    const login = await board.post("/login", { token: operatorToken, next });
    assertEquals([login.status, login.headers.get("Location")], [303, next]);
  }
});

/** A body of which one byte comes, and nothing more: how often its reading was begun, and how often given up. */
function unfinished() {
  const bodies = { read: 0, cancelled: 0, next };
  function next(): ReadableStream<Uint8Array> {
    let isRead = false;
    return new ReadableStream({
      pull(controller) {
        if (!isRead) bodies.read++;
        if (!isRead) controller.enqueue(new Uint8Array(1));
        isRead = true;
        return new Promise<void>(() => {});
      },
      cancel: () => void bodies.cancelled++,
    }, { highWaterMark: 0 });
  }
  return bodies;
}

Deno.test("a form that does not arrive is answered 408, and is no failure", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  using time = new FakeTime();
  const bodies = unfinished();
  const answers = ["/login", "/act"].map((page) =>
    board.send(page, { method: "POST", body: bodies.next() }, { Cookie })
  );
  await time.tickAsync(10_001);
  assertEquals((await Promise.all(answers)).map(({ status }) => status), [408, 408]);
  assertEquals(board.logs.filter(({ level }) => level !== "info"), []);
  assertEquals([bodies.read, bodies.cancelled], [2, 2]);
});

Deno.test("a form that ends early is answered 400, and is no failure", async () => {
  await using board = await openBoard();
  const body = new ReadableStream({ pull: () => Promise.reject(new Error("gone")) });
  assertEquals((await board.send("/login", { method: "POST", body })).status, 400);
  assertEquals(board.logs, []);
});

Deno.test("of 1,000 logins that stand still few are read, and none keeps anybody out", async () => {
  await using board = await openBoard({ trustedProxyHops: 1 });
  using time = new FakeTime();
  const bodies = unfinished();
  const answers = Array.from({ length: 1_000 }, (_, i) => {
    const headers = { "X-Forwarded-For": `198.51.${i >> 8}.${i & 255}` };
    return board.send("/login", { method: "POST", body: bodies.next() }, headers);
  });
  const early = await Promise.all(answers.slice(0, 1_000 - 32));
  assertEquals(new Set(early.map(({ status }) => status)), new Set([503]));
  assertEquals(bodies.cancelled, 1_000 - 32);
  assertEquals((await board.post("/login", { token: OPERATOR })).status, 303);
  await time.tickAsync(10_001);
  await Promise.all(answers);
  assertEquals(bodies.cancelled, 1_000);
});

Deno.test("an address has as many logins under way as it has tries, and no more is read", async () => {
  await using board = await openBoard();
  using time = new FakeTime();
  const bodies = unfinished();
  const answers = Array.from(
    { length: 100 },
    () => board.send("/login", { method: "POST", body: bodies.next() }),
  );
  const refused = await Promise.all(answers.slice(10));
  assertEquals(new Set(refused.map(({ status }) => status)), new Set([429]));
  assertEquals(refused[0]!.headers.get("Retry-After"), "10");
  assertEquals(bodies.read, 10);
  assertEquals((await board.post("/login", { token: OPERATOR })).status, 429);
  const other = await board.post("/login", { token: OPERATOR }, { remote: "192.0.2.2" });
  assertEquals(other.status, 303);
  await time.tickAsync(10_001);
  const late = await Promise.all(answers.slice(0, 10));
  assertEquals(new Set(late.map(({ status }) => status)), new Set([408]));
});

Deno.test("right tokens use up no tries", async () => {
  await using board = await openBoard();
  for (let i = 0; i < 30; i++) {
    assertEquals((await board.post("/login", { token: VIEWER })).status, 303);
  }
});

Deno.test("forms of who may not act are not read", async () => {
  await using board = await openBoard();
  const Cookie = await board.login(VIEWER);
  const bodies = unfinished();
  const statusOf = async (page: string, headers: Record<string, string>) =>
    (await board.send(page, { method: "POST", body: bodies.next() }, headers)).status;
  assertEquals(await statusOf("/act", {}), 303);
  assertEquals(await statusOf("/act", { Cookie }), 403);
  assertEquals(await statusOf("/logout", { Cookie }), 303);
  assertEquals(await statusOf("/nothing", { Cookie }), 404);
  assertEquals(await statusOf("/login", { Origin: "http://evil.example" }), 403);
  assertEquals(bodies.read, 0);
});

Deno.test("a login leads to no other site", async () => {
  await using board = await openBoard();
  const others = [
    ...["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"],
    ...["deliveries/../../x", "x", "payload?id=1", "delivery\r\nSet-Cookie: a=b", "../deliveries"],
    ...[".//evil.example", "././", "./deliveries", "./\\evil.example", "..//", "./?a#//b", ".", ""],
  ];
  for (const next of others) {
    const response = await board.post("/login", { token: OPERATOR, next });
    assertEquals(response.headers.get("Location"), "./", next);
    const page = await (await board.get(`/login?${new URLSearchParams({ next })}`)).text();
    assert(!page.includes("data-next"), next);
  }
  for (const next of ["deliveries?state=dead", "./", "./?period=day"]) {
    const response = await board.post("/login", { token: OPERATOR, next });
    assertEquals(response.headers.get("Location"), next);
  }
});

Deno.test("a payload is downloaded as text that no browser runs", async () => {
  await using board = await openBoard();
  const body = new TextEncoder().encode(`{"a":"<script>alert(1)</script>"}`);
  const id = await storeDead(board.store, "1", { body });
  const Cookie = await board.login();
  const response = await board.get(`/payload?id=${id}`, { Cookie });
  assertEquals(response.headers.get("Content-Type"), "text/plain; charset=utf-8");
  assertMatch(response.headers.get("Content-Disposition")!, /^attachment;/);
  assertStringIncludes(response.headers.get("Content-Security-Policy")!, "sandbox");
  assertEquals(new Uint8Array(await response.arrayBuffer()), body);
});

Deno.test("the console shows no payload if they are hidden", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const body = new TextEncoder().encode(`{"a":"secret"}`);
  const sender = { id: 1, name: "secret", isBot: false };
  const id = await storeDead(board.store, "1", { body, sender }, new RangeError("of a secret"));
  await board.store.accept(delivery("2"));
  const lease = await claim(board.store);
  await board.store.release(lease, { delayMs: 60_000, reason: "secret" });
  const Cookie = await board.login(VIEWER);
  const page = await (await board.get(`/delivery?id=${id}`, { Cookie })).text();
  const list = await (await board.get("/deliveries", { Cookie })).text();
  const other = await board.get(`/delivery?id=${lease.record.id}`, { Cookie });
  assertStringIncludes(page, "<pre>RangeError</pre>");
  const thrown = await storeDead(board.store, "3", {}, "Secret1" as unknown as Error);
  const plain = await (await board.get(`/delivery?id=${thrown}`, { Cookie })).text();
  assertStringIncludes(plain, "<pre>Error</pre>");
  assert(!`${page}${list}${await other.text()}`.includes("secret"));
  assertEquals((await board.get(`/payload?id=${id}`, { Cookie })).status, 403);
});

Deno.test("nothing of the tokens is logged or shown", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  await board.post("/login", { token: "a-wrong-token" });
  const page = await (await board.get("/", { Cookie })).text();
  const all = JSON.stringify(board.logs) + page;
  assert(![OPERATOR, VIEWER, "a-wrong-token"].some((each) => all.includes(each)));
  assertEquals(board.logs.map(({ message }) => message), [
    "console login",
    "console login refused",
  ]);
});
