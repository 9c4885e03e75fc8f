import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import type { AxeResults } from "axe-core";
import { startApp } from "../../app/mod.ts";
import { consoleMount } from "../../console/mod.ts";
import type { EventStore } from "../../events/mod.ts";
import { findChromium, startBrowser } from "../../dev/harness/browser.ts";
import { defineApp, github } from "../../mod.ts";
import { forgeDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import { WallClock } from "../_wall_clock.ts";
import { OPERATOR, VIEWER } from "./_board.ts";

/**
 * True with all permissions: playwright asks for a file in `/proc/sys`, which Deno gives to nobody else. A
 * permission that nothing else here needs tells that.
 */
const isAllAllowed = Deno.permissions.querySync({ name: "ffi" }).state === "granted";

const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>`;

const chromium = isAllAllowed ? findChromium() : undefined;

/** App with a console, and a browser that looks at it. */
interface World {
  readonly url: string;
  readonly store: EventStore;
  /** Set to false to have handlers fail. */
  works: boolean;
  /** Handlers wait for it. */
  held: Promise<void> | undefined;
  send(type: string, payload?: object): Promise<string>;
  /** Opens a page in a context of its own. Its errors and its requests elsewhere are noted. */
  open(path: string, options?: BrowserContextOptions): Promise<Page>;
  /** Opens a page, and logs in there as an operator. */
  enter(path: string, options?: BrowserContextOptions): Promise<Page>;
  /** Logs in, and waits for the page behind the login. */
  login(page: Page, token?: string): Promise<void>;
  /** Forgets what Chromium has reported of a response that was meant, by its status or the name of the error. */
  forget(status: number | string): void;
  /** Holds the handlers up until the function that it returns is called. */
  hold(): () => void;
}

async function withWorld(run: (world: World) => Promise<void>): Promise<void> {
  const flaws: string[] = [];
  const bot = defineApp({
    ...{ name: "browsed", rateLimit: false, mounts: [consoleMount()] },
    platform: github({ groupBy: ({ payload }) => (payload as { key?: string }).key }),
    worker: { retry: { maxAttempts: 1 } },
  });
  bot.schedule("digest", "0 7 * * *", () => {});
  bot.onAny(async ({ type }, { ask, step }) => {
    if (type === "release") return void await ask("approval", () => {});
    if (type === "deployment") await step("look", () => 1);
    await world.held;
    if (!world.works) throw new Error(`no luck ${HOSTILE}`);
  });
  const env = {
    ...{
      GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing,
      KV_URL: ":memory:",
      HOST: "127.0.0.1",
      PORT: "0",
    },
    ...{
      CONSOLE_TOKEN: VIEWER,
      CONSOLE_OPERATOR_TOKEN: OPERATOR,
      CONSOLE_ENVIRONMENT: "development",
    },
  };
  const app = await startApp(bot, { env, log: () => {} });
  let browser: Browser | undefined;
  const world: World = {
    ...{ url: app.url, store: app.store!, works: true, held: undefined },
    async send(type, payload = { action: "opened" }) {
      const id = crypto.randomUUID();
      const { headers, body } = forgeDelivery(type, payload, { id });
      const response = await fetch(`${app.url}/webhook`, { method: "POST", headers, body });
      assertEquals(await response.text(), "OK");
      return `github:${id}`;
    },
    async open(path, options = {}) {
      const context = await browser!.newContext(options);
      const page = await context.newPage();
      page.setDefaultTimeout(90_000);
      page.on("console", (message) => {
        if (message.type() === "error") flaws.push(message.text());
      });
      page.on("pageerror", (error) => flaws.push(String(error)));
      page.on("dialog", (dialog) => flaws.push(`dialog ${dialog.message()}`));
      page.on("request", (request) => {
        if (!request.url().startsWith(`${app.url}/console`)) flaws.push(`asks ${request.url()}`);
      });
      await page.goto(`${app.url}/console/${path}`);
      return page;
    },
    async enter(path, options) {
      const page = await world.open(path, options);
      await world.login(page);
      return page;
    },
    forget(status) {
      const text = typeof status === "number" ? `status of ${status}` : status;
      const isMeant = (flaw: string) => flaw.includes(text);
      flaws.splice(0, Infinity, ...flaws.filter((flaw) => !isMeant(flaw)));
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      world.held = promise;
      return resolve;
    },
    async login(page, token = OPERATOR) {
      await page.fill("#token", token);
      await follow(page, "main button", /^(?!.*\/login)/);
    },
  };
  try {
    browser = await startBrowser(chromium!);
    await run(world);
    assertEquals(flaws, []);
  } catch (error) {
    const pages = browser?.contexts().flatMap((context) => context.pages()) ?? [];
    for (const page of pages) console.log(page.url(), await textOf(page).catch(String));
    console.log({ flaws, events: await Array.fromAsync(app.store!.list()) });
    throw error;
  } finally {
    await browser?.close();
    await app.stop();
  }
}

function browse(name: string, run: (world: World) => Promise<void>): void {
  const reason = isAllAllowed ? "there is no chromium" : "needs --allow-all";
  if (chromium) Deno.test(name, () => withWorld(run));
  else Deno.test({ name: `${name} (skipped: ${reason})`, ignore: true, fn: () => {} });
}

/** Clicks on what leads to another page, and waits for that page. */
async function follow(page: Page, selector: string, url: RegExp): Promise<void> {
  await Promise.all([page.waitForURL(url), page.click(selector)]);
}

/** Counts the clicks on a page and on those that follow it in its tab. */
async function countClicks(page: Page): Promise<() => Promise<number>> {
  const count = `addEventListener("click", () =>
    sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1, true)`;
  await page.addInitScript(count);
  await page.evaluate(count);
  return () => page.evaluate(`Number(sessionStorage.clicks ?? 0)`);
}

const textOf = (page: Page) => page.textContent("main").then((text) => text ?? "");

/** Waits for longer than from one refresh to the next, in which a page asks for nothing. */
async function rests(page: Page): Promise<void> {
  let polls = 0;
  page.on("request", () => polls++);
  await page.waitForTimeout(2_500);
  assertEquals(polls, 0);
}

/** Waits until a table has a number of rows. */
async function rows(page: Page, count: number): Promise<void> {
  const [last, more] = [`tr:nth-child(${count})`, `tr:nth-child(${count + 1})`];
  await page.waitForSelector(`tbody:has(${last}):not(:has(${more}))`);
}

browse(
  "an operator sees an event arrive, opens it, and replays a dead one until it is handled",
  async (world) => {
    const page = await world.open("");
    assertMatch(page.url(), /\/console\/login\?next=/);
    await world.login(page);
    await page.waitForSelector("text=No delivery yet");
    await world.send("push");
    await page.waitForSelector('.tiles a:nth-child(4) b:text-is("1")');
    world.works = false;
    const id = await world.send("issues");
    await page.waitForSelector('.tiles a:nth-child(5) b:text-is("1")');
    await follow(page, "text=dead", /deliveries\?state=dead$/);
    await follow(page, "table a", /delivery\?id=/);
    assertStringIncludes(await textOf(page), "no luck");
    assertStringIncludes(await textOf(page), id);
    world.works = true;
    await follow(page, "text=Replay…", /act\?kind=replay&id=/);
    await follow(page, "main form button", /delivery\?id=/);
    await page.waitForSelector(".head .state.done");
    await follow(page, "nav >> text=Acts", /acts$/);
    assertMatch(await textOf(page), /Replay.*operator [0-9a-f]{4} from 127\.0\.0\.1/s);
  },
);

browse("an operator filters, pages, and acts on all that match", async (world) => {
  world.works = false;
  const page = await world.enter("deliveries");
  for (let i = 0; i < 55; i++) await world.send(i % 5 === 0 ? "release" : "push");
  await page.selectOption("select[name=state]", "dead");
  await page.fill("input[name=type]", "push");
  await follow(page, "form.filter button", /\?state=dead&type=push$/);
  await rows(page, 44);
  await follow(page, "text=Clear", /deliveries$/);
  await rows(page, 50);
  await follow(page, "text=Older", /cursor=/);
  await rows(page, 5);
  world.works = true;
  await page.goto(`${world.url}/console/deliveries?state=dead&type=push`);
  await follow(page, "text=Replay…", /act\?kind=replay/);
  await page.waitForSelector("text=Replay 44 events?");
  await follow(page, "main form button", /progress\?id=/);
  await page.waitForSelector("text=44 of 44 changed");
  await page.waitForSelector("text=finished");
  await page.goto(`${world.url}/console/deliveries?state=done&type=push`);
  await rows(page, 44);
});

/** Holds the pages of a store's lists, from a number of those with a limit on. Returns what lets them go on. */
function holdLists(store: EventStore, limit: number, from: number): () => void {
  const { list } = store;
  const held = Promise.withResolvers<void>();
  let lists = 0;
  store.list = ((options) => {
    const found = list(options);
    if (options?.limit !== limit || ++lists < from) return found;
    const { next } = found;
    found.next = async () => {
      await held.promise;
      return await next.call(found);
    };
    return found;
  }) as typeof list;
  return held.resolve;
}

browse("an operator sees how far the count before an act is, and stops the act", async (world) => {
  world.works = false;
  for (let i = 0; i < 70; i++) await world.send("push");
  const page = await world.enter("deliveries?state=dead");
  await rows(page, 50);
  const goOn = holdLists(world.store, 500, 1);
  await page.goto(`${world.url}/console/act?kind=purge&state=dead`);
  await page.waitForSelector("text=0 counted so far");
  assertEquals(await page.locator("form[action=act]").count(), 0);
  goOn();
  await page.waitForSelector("text=Purge 70 events?");
  const end = holdLists(world.store, 50, 2);
  // The browser sends nothing before the number is typed.
  await page.click("form[action=act] button");
  await page.fill("#typed", "69");
  await page.click("form[action=act] button");
  assertMatch(page.url(), /act\?kind=purge/);
  await page.fill("#typed", "70");
  await follow(page, "form[action=act] button", /progress\?id=/);
  await page.waitForSelector("text=50 of 70 changed");
  await page.click("text=Stop");
  await page.waitForURL(/progress\?id=/);
  end();
  await page.waitForSelector("text=Stopped after 50 of 70 by operator");
  assertEquals((await world.store.stats()).dead, 20);
  await follow(page, "text=Resume", /progress\?id=/);
  await page.waitForSelector("text=70 of 70 changed");
  assertEquals((await world.store.stats()).dead, 0);
});

browse("an operator acts on a group whose key has a line break", async (world) => {
  world.works = false;
  for (let i = 0; i < 2; i++) await world.send("push", { key: "a\nb" });
  const page = await world.enter("deliveries?state=dead");
  await rows(page, 2);
  await page.goto(`${world.url}/console/act?kind=purge&state=dead&group=a%0Ab`);
  await page.waitForSelector("text=Purge 2 events?");
  await page.fill("#typed", "2");
  await follow(page, "main form button", /progress\?id=/);
  await page.waitForSelector("text=2 of 2 changed");
});

browse("a viewer sees all and may not act", async (world) => {
  world.works = false;
  const id = await world.send("push");
  const page = await world.open(`delivery?id=${encodeURIComponent(id)}`);
  await world.login(page, VIEWER);
  await page.waitForSelector(".state.dead");
  assertEquals(await page.locator("text=Replay").count(), 0);
  assertEquals(await page.locator("nav >> text=Send").count(), 0);
  const refused = page.waitForResponse((response) => response.status() === 403);
  await page.goto(`${world.url}/console/act?kind=replay&id=${encodeURIComponent(id)}`);
  await refused;
  assertStringIncludes(await textOf(page), "operator's token");
  world.forget(403);
});

browse("a wrong token and an expired session lead to the login", async (world) => {
  const page = await world.open("deliveries?state=dead");
  await page.fill("#token", "wrong");
  await page.click("main button");
  await page.waitForSelector("[role=alert]");
  world.forget(403);
  await world.login(page);
  await page.waitForURL("**/deliveries?state=dead");
  await page.context().clearCookies();
  await page.waitForURL("**/login?next=*", { timeout: 90_000 });
});

browse("a link from elsewhere opens its page in a session that is there", async (world) => {
  const page = await world.enter("");
  await page.waitForSelector("text=Overview");
  for (const path of ["deliveries?state=dead", "?period=day", ""]) {
    // Chromium sends no strict cookie along with a link on a page of another site.
    await page.goto("data:text/html,<a href>elsewhere</a>");
    await page.evaluate(`document.querySelector("a").href = "${world.url}/console/${path}"`);
    await page.click("a");
    await page.waitForURL((url) => url.href === `${world.url}/console/${path}`);
    await page.waitForSelector("nav");
  }
  await page.goto(`${world.url}/console/?period=day`);
  await page.context().clearCookies();
  await page.waitForURL((url) => url.searchParams.get("next") === "./?period=day");
});

browse("hostile names and payloads stay text", async (world) => {
  const repository = { id: 1, full_name: `a/${HOSTILE}`, name: HOSTILE, owner: { login: "a" } };
  world.works = false;
  const id = await world.send("issues", {
    ...{ action: "opened", repository, [HOSTILE]: [HOSTILE, { deep: HOSTILE }] },
    sender: { id: 1, login: HOSTILE, type: "User" },
  });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".state.dead");
  assertStringIncludes(await textOf(page), HOSTILE);
  await page.fill("#find", "deep");
  await page.waitForSelector("text=1 found");
  assertEquals(await page.locator("main img, main script").count(), 0);
  await page.goto(`${world.url}/console/deliveries?place=${encodeURIComponent(HOSTILE)}`);
  assertEquals(await page.inputValue("input[name=place]"), HOSTILE);
});

browse(
  "a page that is hidden asks for nothing, and looks again once it is shown",
  async (world) => {
    const page = await world.open("", { reducedMotion: "reduce" });
    await page.clock.install();
    await world.login(page);
    let polls = 0;
    page.on("request", (request) => polls += request.headers()["x-poll"] === "1" ? 1 : 0);
    const poll = () => page.waitForResponse((each) => each.request().headers()["x-poll"] === "1");
    const turn = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, "hidden", { configurable: true, value: ${isHidden} });
      document.dispatchEvent(new Event("visibilitychange"))`,
      );
    await Promise.all([poll(), page.clock.runFor(2_100)]);
    await page.clock.runFor(500);
    await turn(true);
    polls = 0;
    await page.clock.runFor(60_000);
    assertEquals(polls, 0);
    await Promise.all([poll(), turn(false)]);
  },
);

browse("names of any script stay in their places, and widen no page", async (world) => {
  world.works = false;
  const long = `${"Z\u0335\u0321".repeat(60)}${"w".repeat(300)}`;
  const repository = { id: 1, full_name: `שלום/${long}`, name: long, owner: { login: "שלום" } };
  const id = await world.send("an_event_of_a_long_name_on_a_phone", {
    action: long,
    repository,
    "مفتاح": "قيمة",
    [long]: long,
  });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".state.dead");
  const [name, value] = await page.evaluate(`["k", "s"].map((kind) => {
    const span = [...document.querySelectorAll(".json ." + kind)].find((each) => /م/.test(each.textContent));
    const range = document.createRange();
    range.setStart(span.firstChild, 1);
    range.setEnd(span.firstChild, 4);
    return range.getBoundingClientRect().x;
  })`) as [number, number];
  assert(name < value, `the name is at ${name}, its value at ${value}`);
  for (const path of [page.url(), "deliveries", "./"]) {
    await page.goto(new URL(path, page.url()).href);
    for (const width of [1280, 980, 480, 360]) {
      await page.setViewportSize({ width, height: 800 });
      const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
      assert(!isWide, `${path} is wider than ${width}`);
    }
  }
  await page.setViewportSize({ width: 360, height: 800 });
  // A busy machine reads what was counted after the first page has come.
  await page.waitForSelector("[aria-label='By type']");
  const hidden = await page.evaluate(
    `(s => s.scrollWidth - s.clientWidth)(document.querySelector("[aria-label='By type']"))`,
  );
  assertEquals(hidden, 0);
});

browse("in development an operator sends an example, and finds its event", async (world) => {
  const page = await world.enter("send");
  await page.click("text=pull_request");
  await page.click("main form button");
  await follow(page, "text=Open it", /delivery\?id=/);
  await page.waitForSelector(".state.done");
  assertStringIncludes(await textOf(page), "pull_request.opened");
});

browse("the pages work without JavaScript", async (world) => {
  world.works = false;
  const id = await world.send("push");
  const page = await world.enter("", { javaScriptEnabled: false });
  await page.goto(`${world.url}/console/delivery?id=${encodeURIComponent(id)}`);
  await follow(page, "text=Replay…", /act\?kind=replay&id=/);
  await follow(page, "main form button", /delivery\?id=/);
  assertEquals(await page.locator("[data-pause]").isVisible(), false);
  assertMatch(await textOf(page), /UTC/);
});

browse("a page rests while it is paused, and shows times in the reader's zone", async (world) => {
  const page = await world.enter("", { timezoneId: "Asia/Kolkata" });
  await page.waitForSelector(".axis time");
  const [shown, utc] = await page.$eval(
    ".axis time",
    (each) => [each.textContent, each.getAttribute("datetime")],
  );
  const local = new Date(Date.parse(utc!) + 5.5 * 3_600_000).toISOString().slice(11, 16);
  assertEquals(shown, local);
  await page.waitForRequest((request) => request.headers()["x-poll"] === "1");
  await page.click("[data-pause]");
  await rests(page);
  await page.click("[data-pause]");
  await page.waitForRequest((request) => request.headers()["x-poll"] === "1");
});

/** Acts on all of a choice, as a program does, and waits until that has ended. */
async function actAsProgram({ url }: World, choice: object): Promise<string> {
  const headers = { Authorization: `Bearer ${OPERATOR}`, "Content-Type": "application/json" };
  const post = async (value: object) => {
    const init = { method: "POST", headers, body: JSON.stringify(value) };
    return await (await fetch(`${url}/console/api/act`, init)).json();
  };
  const { act, count } = await post({ ...choice, dryRun: true });
  for (;;) {
    const { act: { state } } = await post({ ...choice, act, of: count });
    if (state !== "running") return act;
  }
}

browse("axe finds nothing, in both themes and at the width of a phone", async (world) => {
  // On loading it reads a variable, which a test without permissions may not.
  const { default: axe } = await import("axe-core");
  world.works = false;
  const id = await world.send("issues", {
    action: "opened",
    issue: { id: 1, labels: [{ name: "bug" }] },
  });
  const deployed = await world.send("deployment");
  const released = await world.send("release");
  const { store } = world;
  await (await store.state(`chat/${HOSTILE}`)).set({ step: HOSTILE });
  const step = "onAny/look";
  const paths = [
    ...[
      ...["running", "parked", `wake?id=${released}`, "schedules", "states"],
      "schedule?schedule=digest&do=run",
      `state?${new URLSearchParams({ key: `chat/${HOSTILE}` })}`,
      ...[`delivery?id=${deployed}`, `repeat?${new URLSearchParams({ id: deployed, step })}`],
    ],
    ...[
      "",
      "deliveries",
      "deliveries?state=dead",
      "deliveries?type=none",
      "limits",
      "problems",
      "acts",
      "send",
    ],
    ...[
      `delivery?id=${id}`,
      `act?kind=purge&id=${id}`,
      "act?kind=replay&state=dead",
      "act?kind=purge&state=dead",
      "delivery?id=none",
    ],
  ];
  const act = await actAsProgram(world, { kind: "replay", state: "dead" });
  paths.push(`progress?id=${act}`, `changed?id=${act}`);
  for (const colorScheme of ["light", "dark"] as const) {
    for (const width of [1280, 390]) {
      const options = { colorScheme, bypassCSP: true, viewport: { width, height: 800 } };
      const page = await world.open("", options);
      for (const path of ["login", ...paths]) {
        if (path !== "login") await page.goto(`${world.url}/console/${path}`);
        await page.evaluate("document.querySelector('.values')?.setAttribute('open', '')");
        await page.evaluate(axe.source);
        const { violations } = await page.evaluate(
          "axe.run({ rules: { 'target-size': { enabled: true } } })",
        ) as AxeResults;
        const found = violations.map((each) => `${each.id}: ${each.nodes.map(({ html }) => html)}`);
        assertEquals(found, [], `${path} ${colorScheme} ${width}`);
        const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
        assert(!isWide, `${path} is wider than ${width}`);
        if (path === "login") await world.login(page);
      }
      await page.context().close();
    }
  }
  world.forget(404);
});

browse("a phone shows the menu, lists and tiles whole", async (world) => {
  world.works = false;
  const { store } = world;
  const end = world.hold();
  await world.send("push", { repository: { id: 1, full_name: "a-long-owner/a-long-name" } });
  await world.send("release");
  await store.tokens.of("zulip", "12345678901234567890").closeFor(3_600_000);
  const phone = await world.enter("", { viewport: { width: 390, height: 800 } });
  await phone.waitForSelector("text=Cancel…");
  end();
  await phone.waitForSelector('.tiles a:nth-child(5) b:text-is("1")');
  await world.send("an_event_of_a_long_name_on_a_phone");
  const flaws = `[
    ...[...document.querySelectorAll("nav, .scroll, .list td:first-child")].filter((each) => each.scrollWidth > each.clientWidth + 1),
    ...[...document.querySelectorAll(".tiles, .strip")].filter(({ lastElementChild: last, parentElement }) =>
      last.getBoundingClientRect().right + 2 < last.parentElement.getBoundingClientRect().right),
    ...[...document.querySelectorAll("td")].filter((each) =>
      each.offsetWidth > 0 && each.offsetWidth < 45 && each.textContent.trim().length > 9),
  ].map((each) => each.outerHTML)`;
  for (
    const path of ["", "deliveries", "problems", "limits", "running", "parked", "schedules", "acts"]
  ) {
    await phone.goto(`${world.url}/console/${path}`);
    assertEquals(await phone.evaluate(flaws), [], path);
  }
  await phone.goto(`${world.url}/console/problems`);
  const label = `getComputedStyle(document.querySelector("td.num"), "::before").content`;
  assertMatch(await phone.evaluate(label), /^"dead/);
});

browse("a handler that hangs is cancelled with two clicks from the first page", async (world) => {
  const end = world.hold();
  const id = await world.send("push");
  const page = await world.enter("");
  const clicks = await countClicks(page);
  await page.waitForSelector("text=Cancel…");
  await follow(page, "text=Cancel…", /act\?kind=cancel&id=/);
  assertEquals((await world.store.get(id))!.state, "running");
  await follow(page, "main form button", /\/delivery\?/);
  assertEquals(await clicks(), 2);
  assertMatch(await textOf(page), /Cancelled\s*\S+.*, by operator/s);
  end();
  await page.waitForSelector(".head .state.dead");
  assertEquals((await world.store.get(id))!.outcome, "cancelled");
});

browse("no click on the page of what runs changes anything", async (world) => {
  const end = world.hold();
  const id = await world.send("push");
  const page = await world.enter("running");
  await page.waitForSelector("text=Cancel…");
  assertEquals(await page.locator("main button").count(), 0);
  await follow(page, "text=Cancel…", /act\?kind=cancel&id=/);
  assertStringIncludes(await textOf(page), "Cancel this event?");
  assertEquals((await world.store.get(id))!.state, "running");
  end();
});

browse("an approval that nobody gave is given with three clicks", async (world) => {
  const id = await world.send("release");
  while ((await world.store.get(id))!.state !== "parked") {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const page = await world.enter("");
  await follow(page, "nav >> text=Parked", /\/parked$/);
  assertMatch(await textOf(page), /in 6 d/);
  assertMatch((await page.locator("td time").last().getAttribute("title"))!, /20\d\d.* UTC$/);
  await follow(page, "text=Answer…", /\/wake\?/);
  await page.fill("textarea", "yes");
  await follow(page, "main button", /\/wake$/);
  world.forget(400);
  assertStringIncludes(await textOf(page), 'A text needs quotes: "go"');
  assertEquals(await page.inputValue("textarea"), "yes");
  await page.fill("textarea", '"yes"');
  await follow(page, "main button", /\/delivery\?/);
  await page.waitForSelector(".head .state.done");
  assertMatch(await textOf(page), /Answered.*by operator.*"yes"/s);
});

browse("an answer says that it waits for a place, and is asked for no more", async (world) => {
  const id = await world.send("release");
  while ((await world.store.get(id))!.state !== "parked") {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const end = world.hold();
  for (let i = 0; i < 10; i++) await world.send("push");
  const page = await world.enter("running");
  await rows(page, 10);
  await page.goto(`${world.url}/console/delivery?${new URLSearchParams({ id })}`);
  await follow(page, "main >> text=Answer…", /\/wake\?/);
  await page.click("main >> text=Payload");
  await page.waitForSelector(".json >> text=opened");
  await page.fill("textarea", "true");
  await follow(page, "main button", /\/delivery\?/);
  assertMatch(await textOf(page), /parked answered.*waits for a free place.*by operator.*true/s);
  assertEquals(await page.locator("main >> text=Answer…").count(), 0);
  await follow(page, "nav >> text=Overview", /console\/$/);
  await page.waitForSelector(".tiles >> text=1 answered");
  await follow(page, "nav >> text=Parked", /\/parked$/);
  assertMatch(await textOf(page), /answered .*, waits for a place/);
  assertEquals(await page.locator("main >> text=Answer…").count(), 0);
  end();
  await page.waitForSelector("text=No event waits for somebody.");
  await page.goto(`${world.url}/console/delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".head .state.done");
});

browse(
  "a refresh keeps focus, scroll positions, a selection and where the reader is",
  async (world) => {
    for (let i = 0; i < 30; i++) await world.send("push", { action: "a".repeat(40) });
    const page = await world.enter("deliveries", { viewport: { width: 700, height: 400 } });
    await rows(page, 30);
    const top = "tbody tr:nth-last-child(9) a";
    await page.evaluate(`{
    const link = document.querySelector("${top}");
    link.scrollIntoView();
    link.focus();
    document.querySelector(".scroll").scrollLeft = 40;
    getSelection().selectAllChildren(document.querySelector("tbody tr:nth-last-child(8) a"));
    window.kept = [link, link.getBoundingClientRect().top, String(getSelection())];
  }`);
    await world.send("release");
    // What has come is announced, and moves nothing.
    await page.waitForSelector("text=1 new");
    await rows(page, 30);
    const [isFocused, moved, isSelected, left] = await page.evaluate(`[
    document.activeElement === kept[0],
    Math.abs(document.querySelector("${top}").getBoundingClientRect().top - kept[1]),
    String(getSelection()) === kept[2] && kept[2].startsWith("push.a"),
    document.querySelector(".scroll").scrollLeft,
  ]`) as [boolean, number, boolean, number];
    assertEquals([isFocused, isSelected, left], [true, true, 40]);
    assert(moved < 2, `moved by ${moved}`);
  },
);

browse("an event that ends leaves the reader's search in its payload as it is", async (world) => {
  const resolve = world.hold();
  const id = await world.send("issues", { action: "opened", issue: { deep: { deeper: 1 } } });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".state.running");
  await page.fill("#find", "deeper");
  await page.click(".json > details > summary");
  resolve();
  await page.waitForSelector(".state.done");
  await page.waitForSelector("text=Not kept");
  assertEquals(await page.inputValue("#find"), "deeper");
  assertEquals(
    await page.evaluate("document.activeElement.id || document.activeElement.tagName"),
    "SUMMARY",
  );
  assertEquals(await page.evaluate("document.querySelector('.json > details').open"), false);
  assertEquals(await page.locator("main >> text=Replay").count(), 0);
});

/** Finds the middle of the column of the only event: it may not be the last one any more, if a minute has begun. */
const MIDDLE_OF_EVENT = `(() => {
  const chart = document.querySelector(".chart");
  const { from, slot, slots } = chart.dataset;
  const { at } = document.querySelector(".values tbody [data-at]").dataset;
  return ((at * 60_000 - from) / slot + 0.5) / slots * chart.querySelector("svg").clientWidth;
})()`;

browse(
  "the values of the charts are read by keyboard, and stay open at a refresh",
  async (world) => {
    const page = await world.enter("");
    await page.focus(".values summary");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".values[open] >> text=Nothing in this time.");
    await world.send("push");
    await page.waitForSelector(".values[open] tbody [data-at]");
    await page.hover(".plot svg", { position: { x: 5, y: 5 } });
    await page.waitForSelector("output >> text=/\\d\\d:\\d\\d {2}0 received, 0 refused/");
    await page.hover(".plot svg", {
      position: { x: await page.evaluate<number>(MIDDLE_OF_EVENT), y: 5 },
    });
    await page.waitForSelector("output >> text=1 received, 0 refused");
    assertEquals(await page.evaluate("document.activeElement.tagName"), "SUMMARY");
  },
);

browse(
  "a bar of a chart has a marker, which goes with the pointer, and leads to its deliveries",
  async (world) => {
    await world.send("push");
    const page = await world.enter("");
    await page.waitForSelector(".values tbody [data-at]", { state: "attached" });
    // A column goes to the left when a minute begins.
    const point = async () => {
      const x = await page.evaluate<number>(MIDDLE_OF_EVENT);
      await page.hover(".plot svg", { position: { x, y: 5 } });
    };
    await point();
    await page.waitForSelector("output >> text=1 received, 0 refused");
    const marks = () => page.locator("path.mark[d]").count();
    assertEquals(await marks(), 1);
    // It stays when the page refreshes, and goes with the pointer.
    await page.waitForTimeout(2_500);
    assertEquals(await marks(), 1);
    await page.hover("h1");
    assertEquals([await marks(), await page.locator("output").first().textContent()], [0, ""]);
    const slot = await page.getAttribute(".values tbody [data-at]", "data-at");
    const from = Number(slot) * 60_000;
    const here = new RegExp(`deliveries\\?from=${from}&before=${from + 60_000}$`);
    await point();
    await page.mouse.down();
    await Promise.all([page.waitForURL(here), page.mouse.up()]);
    await rows(page, 1);
    await page.goBack();
    await page.click(".values summary");
    await follow(page, ".values tbody [data-at] a", here);
  },
);

browse("a page that is not reached says since when, and is dimmed until it is", async (world) => {
  const page = await world.enter("");
  await page.waitForSelector(".plot svg");
  await page.context().setOffline(true);
  await page.waitForSelector("#lost >> text=/^Not reached since .+ What is shown is of that time/");
  await page.waitForSelector("[data-live].stale");
  await page.context().setOffline(false);
  await page.waitForSelector("#lost", { state: "detached" });
  await page.waitForSelector("[data-live]:not(.stale)");
  world.forget("ERR_INTERNET_DISCONNECTED");
});

browse(
  "a handler that hangs is cancelled in two clicks, and a changed secret is found in one",
  async (world) => {
    using clock = new WallClock();
    const release = world.hold();
    const ids: string[] = [];
    for (let i = 0; i < 11; i++) ids.push(await world.send("push"));
    clock.advance(65_000);
    const page = await world.enter("");
    const cancel = `ul.wrong a[href="act?kind=cancel&id=${encodeURIComponent(ids[0]!)}"]`;
    await page.waitForSelector(cancel);
    assertStringIncludes(await textOf(page), "All 10 places of the process");
    await follow(page, cancel, /act\?kind=cancel&id=/);
    await follow(page, "main form button", /delivery\?id=/);
    // It does not heed its signal, so it goes on.
    const asked = 'a[href^="act?kind=cancel"]';
    await page.waitForSelector("text=Its handler has not returned since it was cancelled");
    assertEquals(await page.locator(asked).count(), 0);
    await page.goto(`${world.url}/console/running`);
    const row = page.locator("tr", { hasText: "Its handler has not returned since." });
    await row.waitFor();
    assertEquals([await row.count(), await row.locator(asked).count()], [1, 0]);
    await page.goto(`${world.url}/console/`);
    await page.waitForSelector(".strip >> text=1 told to stop, not returned");
    await page.waitForSelector("text=/It keeps its place until it returns, .* is restarted/");
    assertEquals(await page.locator(cancel).count(), 0);
    await page.goto(`${world.url}/console/delivery?${new URLSearchParams({ id: ids[0]! })}`);
    release();
    await page.waitForSelector(".head .state.dead");
    const wrong = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };
    for (let i = 0; i < 3; i++) {
      const response = await fetch(`${world.url}/webhook`, {
        method: "POST",
        headers: wrong,
        body: "{}",
      });
      assertEquals(await response.json(), { error: "Invalid signature" });
    }
    clock.advance(65_000);
    await page.goto(`${world.url}/console/`);
    await page.waitForSelector("text=3 deliveries to the platform github were refused since");
    await follow(page, "text=What was refused, and what to do", /refusals$/);
    for (
      const text of ["the signature does not match", "Set the same secret", "GITHUB_WEBHOOK_SECRET"]
    ) {
      assertStringIncludes(await textOf(page), text);
    }
  },
);

browse("the page of an event that is gone says so, and asks no more", async (world) => {
  const resolve = world.hold();
  const id = await world.send("issues", { action: "opened", issue: { title: "kept in view" } });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".state.running");
  await page.click("[data-pause]");
  const other = await world.enter(`act?kind=cancel&id=${encodeURIComponent(id)}`);
  await other.goto(`${world.url}/console/act?kind=cancel&id=${encodeURIComponent(id)}`);
  await follow(other, "main form button", /delivery\?id=/);
  resolve();
  await other.waitForSelector(".state.dead");
  await follow(other, "text=Purge…", /act\?kind=purge/);
  await follow(other, "main form button", /progress\?id=/);
  await page.click("[data-pause]");
  await page.waitForSelector("[role=alert] >> text=No event with this id is stored");
  assertStringIncludes(await textOf(page), "kept in view");
  assertEquals(await page.locator("[data-pause]").isVisible(), false);
  assertEquals(await page.locator("text=Cancel…").count(), 0);
  await rests(page);
  world.forget(404);
});

browse("the page of an event that has ended shows what becomes of it elsewhere", async (world) => {
  world.works = false;
  const id = await world.send("issues", { action: "opened", issue: { title: "kept in view" } });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  await page.waitForSelector(".state.dead");
  await page.fill("#find", "title");
  const resolve = world.hold();
  assert(await world.store.replay(id));
  await page.waitForSelector(".state.running");
  resolve();
  await page.waitForSelector(".state.dead");
  await page.waitForSelector("text=Purge…");
  assertEquals(await page.inputValue("#find"), "title");
  assertEquals((await world.store.purge({ ids: [id] })).changed, 1);
  await page.waitForSelector("[role=alert] >> text=No event with this id is stored");
  assertEquals(await page.locator("text=Purge…").count(), 0);
  assertStringIncludes(await textOf(page), "kept in view");
  world.forget(404);
});

browse("going back shows the filter of the list", async (world) => {
  const page = await world.enter("deliveries?from=2026-01-31T14:03", {
    timezoneId: "Asia/Kolkata",
  });
  const look = async () => [
    await page.inputValue("select[name=state]"),
    await page.inputValue("form.filter input[name=from]"),
  ];
  const shown = ["", "2026-01-31T19:33"];
  assertEquals(await look(), shown);
  await page.selectOption("select[name=state]", "dead");
  await follow(page, "form.filter button", /\?state=dead&from=2026-01-31T14%3A03$/);
  await page.goBack();
  await page.waitForURL(/deliveries\?from=[^&]+$/);
  assertEquals(await look(), shown);
  await page.selectOption("select[name=state]", "dead");
  await page.fill("form.filter input[name=from]", "2026-02-01T00:00");
  // Browsers that keep whole pages show this one as it was left.
  await page.evaluate(`dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`);
  assertEquals(await look(), shown);
});

browse(
  "a phone shows the list first, also behind a filter, which stands above it",
  async (world) => {
    const page = await world.enter("deliveries", { viewport: { width: 360, height: 640 } });
    const isOpen = () => page.locator("select[name=state]").isVisible();
    assertEquals(await isOpen(), false);
    await page.click("text=Filter");
    await page.selectOption("select[name=state]", "dead");
    await follow(page, "form.filter button", /\?state=dead$/);
    assertEquals(await isOpen(), false);
    assertStringIncludes(await page.locator("a.badge[title=Remove]").innerText(), "state dead");
    await page.setViewportSize({ width: 700, height: 640 });
    assertEquals(await isOpen(), true);
    await follow(page, "a.badge[title=Remove]", /deliveries$/);
    assertEquals(await isOpen(), true);
  },
);

browse("a filter has room for its times, and takes none that no address has", async (world) => {
  const page = await world.enter("deliveries", { locale: "en-US" });
  for (const width of [1280, 700, 360]) {
    await page.setViewportSize({ width, height: 800 });
    if (width === 360) await page.click("text=Filter");
    for (const name of ["from", "before"]) {
      const box = await page.locator(`input[name=${name}]`).boundingBox();
      assert(box!.width >= 215, `${name} takes ${box!.width} of ${width}`);
    }
  }
  await page.fill("input[name=from]", "12345-01-01T00:00");
  await page.click("form.filter button");
  await page.waitForSelector("input[name=from]:invalid");
  await page.fill("input[name=from]", "2026-01-01T00:00");
  await follow(page, "form.filter button", /deliveries\?from=/);
});

browse("a search in a payload counts the names of its parts", async (world) => {
  world.works = false;
  const issue = { labels: [{ name: "bug" }, { name: "old" }, { name: "odd" }], label: 1 };
  const id = await world.send("issues", { action: "opened", issue });
  const page = await world.enter(`delivery?${new URLSearchParams({ id })}`);
  for (const [text, count] of [["labels", 1], ["label", 2], ["name", 3], ["[3]", 0], ["", ""]]) {
    await page.fill("#find", `${text}`);
    const found = await page.textContent("#find + [role=status]");
    assertEquals(found, text === "" ? "" : `${count} found`, `${text}`);
  }
});

browse("pointing at a chart moves nothing", async (world) => {
  for (const width of [1280, 980, 480, 360]) {
    const page = await world.enter("", { viewport: { width, height: 800 } });
    const height = () => page.evaluate("document.documentElement.scrollHeight");
    // The first page of a busy process is shown before its counts are read.
    await page.waitForSelector(".plot svg");
    await page.click("[data-pause]");
    const before = await height();
    for (const chart of await page.locator(".plot svg").all()) {
      await chart.hover({ position: { x: 40, y: 5 } });
    }
    await page.waitForSelector("output >> text=0 succeeded, 0 failed");
    assertEquals(await height(), before, `${width}`);
    const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
    assert(!isWide, `wider than ${width}`);
  }
});

browse("an example that is too long for a form is not sent, and stays", async (world) => {
  const page = await world.enter("send");
  const long = JSON.stringify({ text: "漢".repeat(40_000) });
  await page.fill("#payload", long);
  await page.click("main form button");
  await page.waitForSelector("#payload:invalid");
  assertEquals(await page.inputValue("#payload"), long);
  const ofLength = (length: number) => `{\n"text": "${"x".repeat(length)}"}`;
  const encoded = (text: string) =>
    new URLSearchParams([["", text.replaceAll("\n", "\r\n")]]).toString().length;
  const longest = ofLength(261_000 - encoded(ofLength(0)));
  await page.fill("#payload", `${longest} `);
  await page.waitForSelector("#payload:invalid");
  await page.fill("#payload", longest);
  await page.click("main form button");
  await page.waitForSelector("text=Answered 200");
});

browse("a row opens that was pressed while another one came", async (world) => {
  const first = await world.send("push");
  const page = await world.enter("deliveries");
  await rows(page, 1);
  await page.hover("tbody a");
  await page.mouse.down();
  await world.send("release");
  const isRefreshed = async () => {
    const response = await page.waitForResponse((each) =>
      each.request().headers()["x-poll"] === "1"
    );
    return (await response.text()).includes("1 new");
  };
  while (!await isRefreshed());
  await isRefreshed();
  await Promise.all([
    page.waitForURL((url) => url.searchParams.get("id") === first),
    page.mouse.up(),
  ]);
  await page.goBack();
  await rows(page, 2);
  // The menu of a choice takes the release of the button away.
  await page.hover("h1");
  await page.mouse.down();
  await world.send("issues");
  await page.waitForSelector("text=1 new");
});

browse(
  "new deliveries are announced, and a pause lasts from page to page",
  async (world) => {
    const page = await world.enter("deliveries");
    await world.send("push");
    await rows(page, 1);
    await world.send("release");
    await page.waitForSelector('.fresh a:text-is("1 new")');
    await rows(page, 1);
    await follow(page, ".fresh a", /deliveries$/);
    await rows(page, 2);
    await page.click("[data-pause]");
    for (const path of ["deliveries", ""]) {
      await page.goto(`${world.url}/console/${path}`);
      await page.waitForSelector('[data-pause][aria-pressed=true]:text-is("Resume")');
    }
    await rests(page);
    await page.click("[data-pause]");
    await page.waitForRequest((request) => request.headers()["x-poll"] === "1");
  },
);

browse(
  "the script says how far away a time is as the app does: in two units, rounded down",
  async (world) => {
    const delayMs = 7 * 86_400_000 - 1_800_000;
    const { id } = await world.store.emit("jobs", "digest", {}, { id: "later", delayMs });
    const page = await world.enter(`delivery?id=${encodeURIComponent(id)}`);
    await page.waitForSelector('time[data-form=ago]:text-is("in 6 d 23 h")');
  },
);
