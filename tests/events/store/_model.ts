import { assertEquals, assertRejects } from "@std/assert";
import type {
  EmitOptions,
  EventRecord,
  EventState,
  EventStore,
  Lease,
  StoredState,
} from "../../../events/mod.ts";
import { childIdOf, emissionOf } from "../../../events/store/emission.ts";
import { delivery } from "./_events.ts";
import { assertProblemsAreExact } from "./_problems.ts";

/** An operation on a store, as a generator makes them. Numbers choose among what there is. */
export type Operation =
  | { readonly op: "accept"; readonly id: number; readonly key: number }
  | { readonly op: "emit"; readonly id: number; readonly key: number; readonly delayMs: number }
  | {
    readonly op: "emitting";
    readonly lease: number;
    readonly key: number;
    readonly delayMs: number;
  }
  | { readonly op: "claim"; readonly limit: number }
  | { readonly op: "complete" | "bury" | "release" | "renew" | "recover"; readonly lease: number }
  | { readonly op: "retry" | "putOff"; readonly lease: number; readonly delayMs: number }
  | {
    readonly op: "park";
    readonly lease: number;
    readonly name: number;
    readonly timeoutMs: number;
  }
  | { readonly op: "wake" | "deleteAnswer"; readonly name: number }
  | { readonly op: "readState"; readonly key: number }
  | { readonly op: "setState" | "deleteState"; readonly state: number }
  | { readonly op: "replay" | "cancel"; readonly id: number }
  | { readonly op: "purge" | "replayAll" | "replayDone" | "cancelAll" }
  | { readonly op: "advance"; readonly ms: number };

interface ModelEvent {
  readonly id: string;
  readonly key: string | undefined;
  readonly receivedAt: number;
  state: EventState;
  /** Time at which it is due; an event that waits for others of its key has none. */
  dueAt: number | undefined;
  /** Number of attempts that count. */
  attempts: number;
  /** The attempt that runs. */
  attempt: string | undefined;
  /** The lease that may settle it; undefined also while its worker has to recover it. */
  lease: Lease | undefined;
  /** Set once it was cancelled while it ran. */
  isCancelled: boolean;
  /** Wait of the first event of its group until it is quiet; none unless it is handled with others. */
  wait: Wait | undefined;
  /** Its position in its group, and the last one of its batch, from its first lease on. */
  position: number;
  last: number | undefined;
  /** Set if it joins the group of its key only when it is claimed. */
  joinsLater: boolean;
  /** Number of events that its handler has emitted. */
  emitted: number;
  /** The name that it waits for while it is parked. */
  waitsFor: string | undefined;
  /** Results of its waits. */
  results: readonly string[];
  /** Number of times that it was put back after it had died. */
  runs: number;
}

interface Wait {
  since: number;
  ms: number;
  next: number | undefined;
}

interface ModelGroup {
  ids: string[];
  next: number;
  joinedAt: number | undefined;
}

/** A name: the event that waits for it, a value that no event has taken, or both. */
interface ModelName {
  readonly event: ModelEvent | undefined;
  readonly value: string | undefined;
}

/** A state that was read, and how often it had been changed by then; 0 if there was none. */
interface HeldState {
  readonly key: string;
  readonly state: StoredState<number>;
  changes: number;
}

/** A lease as its worker knows it. */
interface Held {
  /** The event that it is of: one that comes again under the same id is another one. */
  readonly event: ModelEvent;
  /** The attempt that it is of. */
  readonly attempt: string;
  lease: Lease;
}

const LEASE_MS = 1_000;

/** The key whose events are handled together. */
const QUIET_KEY = "key3";

/** The key that may have several places. */
const PLACES_KEY = "key1";

const [QUIET_MS, MAX_WAIT_MS] = [600, 1_500] as const;
const groupOf = (key: number) => key === 0 ? undefined : `key${key}`;

/** An event that is replayed: a dead one goes on with the results that it has had, and a done one begins anew. */
const again = (event: ModelEvent): ModelEvent => ({
  ...event,
  ...{ state: "queued", attempts: 0, isCancelled: false, runs: event.runs + 1 },
  results: event.state === "dead" ? event.results : [],
});

/** Names an attempt. One that was released and leased again in the same millisecond is the same. */
const attemptOf = ({ record: { run, attempt, lease } }: Lease) =>
  [run, attempt, lease!.startedAt].join();

const isOpen = ({ state }: ModelEvent) =>
  state === "queued" || state === "running" || state === "parked";

/** Results of waits, as a record has them. */
const resultsOf = ({ woken = [] }: EventRecord) =>
  woken.map(({ name, value, timedOut }) => `${name}: ${timedOut ? "timed out" : value}`);

/** Simplest model of a store, and a check that the real one does the same. */
export class StoreModel {
  readonly #store: EventStore;
  readonly #keepsPayloads: boolean;
  readonly #events = new Map<string, ModelEvent>();
  readonly #orderingGroups = new Map<string, ModelGroup>();
  readonly #leases: Held[] = [];
  readonly #names = new Map<string, ModelName>();
  readonly #states: HeldState[] = [];
  /** The number of the change that has set a state, and its value. */
  readonly #set = new Map<string, { readonly changes: number; readonly value: number }>();
  #wakes = 0;
  #changes = 0;
  readonly #places: number;

  /**
   * @param keepsPayloads Set if done events can be replayed.
   * @param places The number of places of one of the keys.
   */
  constructor(store: EventStore, keepsPayloads = false, places = 1) {
    this.#store = store;
    this.#places = places;
    this.#keepsPayloads = keepsPayloads;
  }

  /** Does an operation on the store, and checks that it does what the model says. */
  async run(operation: Operation, advance: (ms: number) => void): Promise<void> {
    switch (operation.op) {
      case "advance":
        return advance(operation.ms);
      case "accept":
        return await this.#accept(operation.id, operation.key);
      case "emit":
        return await this.#emit(operation);
      case "claim":
        return await this.#claim(operation.limit);
      case "replay":
        return await this.#replay(`d${operation.id}`);
      case "cancel":
        return await this.#cancel(`d${operation.id}`);
      case "wake":
        return await this.#wake(`name${operation.name}`);
      case "deleteAnswer":
        return await this.#deleteAnswer(operation.name);
      case "readState":
        return await this.#readState(`state${operation.key}`);
      case "setState":
      case "deleteState":
        return await this.#changeState(operation);
      case "purge":
        return await this.#purge();
      case "replayAll":
        return await this.#replayAll("dead");
      case "replayDone":
        return await this.#replayAll("done");
      case "cancelAll":
        return await this.#cancelAll();
      default:
        return await this.#settle(operation);
    }
  }

  /** Checks that the store holds what the model holds: of each event its state and number of attempts. */
  async compare(): Promise<void> {
    const stored = new Map<string, string>();
    for await (const event of this.#store.list()) {
      const isReadable = event.state !== "unreadable";
      stored.set(
        event.id,
        isReadable ? [event.state, event.attempt, ...resultsOf(event)].join() : "",
      );
    }
    const expected = new Map<string, string>(
      [...this.#events].map(([id, { state, attempts, results }]) =>
        [id, [state, attempts, ...results].join()] as const
      ),
    );
    const sorted = (map: Map<string, string>) => [...map].toSorted(([a], [b]) => a < b ? -1 : 1);
    assertEquals(sorted(stored), sorted(expected));
    await assertProblemsAreExact(this.#store);
    const states = await Array.fromAsync(this.#store.states(), ({ key, value }) => [key, value]);
    assertEquals(states, [...this.#set].map(([key, { value }]) => [key, value]).toSorted());
  }

  async #accept(number: number, keyNumber: number): Promise<void> {
    const id = `d${number}`;
    const known = this.#events.get(id);
    const duplicate = known !== undefined && known.state !== "dead";
    const key = groupOf(keyNumber);
    const isQuiet = key === QUIET_KEY;
    const sent = {
      ...delivery(id, "{}", key),
      ...(isQuiet && { quietMs: QUIET_MS, maxWaitMs: MAX_WAIT_MS }),
      ...(key === PLACES_KEY && { places: this.#places }),
    };
    assertEquals(await this.#store.accept(sent), { id, duplicate });
    if (!duplicate) {
      this.#enter({
        id,
        key,
        receivedAt: Date.now(),
        state: "queued",
        dueAt: undefined,
        attempts: 0,
        attempt: undefined,
        lease: undefined,
        isCancelled: false,
        wait: isQuiet ? { since: 0, ms: 0, next: undefined } : undefined,
        position: 0,
        last: undefined,
        joinsLater: false,
        emitted: known?.emitted ?? 0,
        waitsFor: undefined,
        results: known?.results ?? [],
        runs: known ? known.runs + 1 : 0,
      });
    }
  }

  async #emit({ id: number, key, delayMs }: Operation & { readonly op: "emit" }): Promise<void> {
    const id = `jobs:e${number}`;
    const options = { id: `e${number}`, delayMs, ...this.#groupOptions(key) };
    const duplicate = this.#events.has(id);
    assertEquals(await this.#store.emit("jobs", "x", {}, options), { id, duplicate });
    if (!duplicate) this.#addEmitted(id, key, delayMs);
  }

  /** The options of an event that is emitted. */
  #groupOptions(key: number): EmitOptions {
    const group = groupOf(key);
    return { group, ...(group === PLACES_KEY && { places: this.#places }) };
  }

  /** Counts the places of a key that are free, unless others wait for them. */
  #freeIn(key: string): number {
    const ids = this.#orderingGroups.get(key)?.ids ?? [];
    const hasWaiting = ids.some((id) => this.#events.get(id)!.dueAt === undefined);
    const places = key.endsWith(PLACES_KEY) ? this.#places : 1;
    return hasWaiting ? 0 : Math.max(0, places - ids.length);
  }

  #addEmitted(id: string, keyNumber: number, delayMs: number): void {
    const group = groupOf(keyNumber);
    const now = Date.now();
    this.#events.set(id, {
      id,
      key: group && `jobs:${group}`,
      receivedAt: now,
      state: "queued",
      dueAt: now + delayMs,
      attempts: 0,
      attempt: undefined,
      lease: undefined,
      isCancelled: false,
      wait: undefined,
      position: 0,
      last: undefined,
      joinsLater: group !== undefined,
      emitted: 0,
      waitsFor: undefined,
      results: [],
      runs: 0,
    });
  }

  async #claim(limit: number): Promise<void> {
    const now = Date.now();
    const due = this.#byId((event) =>
      (event.dueAt !== undefined && event.dueAt <= now) || this.#isWoken(event)
    );
    const joining = due.filter(({ joinsLater, state, key }) =>
      joinsLater || (state === "parked" && key !== undefined)
    ).sort((a, b) => a.dueAt! - b.dueAt!);
    const waiting = due.filter((event) => !joining.includes(event) && this.#waitOf(event) > 0);
    const leasable = due.filter((event) =>
      !event.isCancelled && !joining.includes(event) && !waiting.includes(event)
    );
    const first = this.#firstOf(joining);
    const leases = await this.#store.claim({ limit, owner: "model", leaseMs: LEASE_MS });
    const others = leases.filter(({ record }) => joining.every(({ id }) => id !== record.id));
    if (leases.length < limit) assertEquals(others.length, leasable.length);
    else assertEquals(leases.length, limit);
    leasable.push(...first);
    await this.#join(joining, first, leases.length === limit);
    for (const lease of leases) {
      const event = this.#events.get(lease.record.id)!;
      assertEquals(leasable.includes(event), true, `${event.id} was not due`);
      if (event.state === "parked") this.#unpark(event, lease.record);
      const attempt = attemptOf(lease);
      Object.assign(event, { state: "running", dueAt: now + LEASE_MS, lease, attempt });
      event.attempts++;
      if (event.wait) event.last ??= this.#lastOf(event);
      const others = (await this.#store.members(lease)).map(({ id }) => id);
      assertEquals(others, this.#othersOf(event).map(({ id }) => id));
      this.#leases.push({ event, attempt, lease });
    }
    for (const event of waiting) {
      const ms = this.#waitOf(event);
      const isMoved = (await this.#store.get(event.id))!.dueAt === now + ms;
      assertEquals(isMoved || leases.length === limit, true, `${event.id} was not moved`);
      if (!isMoved) continue;
      event.dueAt = now + ms;
      event.wait!.ms += ms;
      event.wait!.next = this.#orderingGroups.get(event.key!)!.next;
    }
    for (const event of due.filter(({ isCancelled }) => isCancelled)) {
      // A claim that has found enough leaves the rest to the next one.
      const isSettled = (await this.#store.get(event.id))?.state === "dead";
      assertEquals(isSettled || leases.length === limit, true, `${event.id} was not settled`);
      if (isSettled) this.#leaveAll(event, "dead");
    }
  }

  /** Calculates the time that the first event of a group has to wait until it is quiet. */
  #waitOf({ key, state, wait, last }: ModelEvent): number {
    if (!wait || state !== "queued" || last !== undefined) return 0;
    const { next, joinedAt } = this.#orderingGroups.get(key!)!;
    if (wait.next === next) return 0;
    const left = MAX_WAIT_MS - Math.max(Date.now() - wait.since, wait.ms);
    return Math.max(0, Math.min(QUIET_MS - (Date.now() - (joinedAt ?? -Infinity)), left));
  }

  /** Finds the events that can be the first ones of their groups when they join. */
  #firstOf(joining: readonly ModelEvent[]): ModelEvent[] {
    const now = Date.now();
    const isLeaving = (id: string) => {
      const { isCancelled, dueAt } = this.#events.get(id)!;
      return isCancelled && dueAt! <= now;
    };
    return [...Map.groupBy(joining, ({ key }) => key!)].flatMap(([key, its]) => {
      const group = this.#orderingGroups.get(key)?.ids ?? [];
      // While the claim settles those that were cancelled, any of them may come first.
      const areQueued = its.every(({ state }) => state === "queued");
      const free = this.#freeIn(key);
      if (group.some(isLeaving)) {
        return group.every(isLeaving) || key.endsWith(PLACES_KEY) ? its : [];
      }
      return areQueued || free === 0 ? its.slice(0, free) : its;
    });
  }

  /** Checks that events have joined their groups in the order in which they were due, and wait there. */
  async #join(
    joining: readonly ModelEvent[],
    first: readonly ModelEvent[],
    isFull: boolean,
  ): Promise<void> {
    const positions = new Map<string, number>();
    const joined: [ModelEvent, EventRecord][] = [];
    for (const event of joining) {
      const record = (await this.#store.get(event.id))!;
      const { group } = record;
      assertEquals(isFull || group !== null, true, `${event.id} has not joined its group`);
      if (!group) continue;
      joined.push([event, record]);
      // A parked event is on the schedule by the time at which it was woken, which the model does not know.
      if (event.state === "parked") continue;
      assertEquals(group.position >= (positions.get(group.key) ?? 0), true, "out of order");
      positions.set(group.key, group.position);
    }
    joined.sort(([, a], [, b]) => a.group!.position - b.group!.position);
    for (const [event, record] of joined) {
      const { dueAt } = record;
      if (!first.includes(event)) assertEquals(dueAt, null, `${event.id} does not wait`);
      else if (this.#freeIn(event.key!) > 0) {
        assertEquals(dueAt !== null, true, `${event.id} waits for nothing`);
      }
      if (event.state === "parked") this.#unpark(event, record);
      Object.assign(event, { state: "queued", joinsLater: false, dueAt: dueAt ?? undefined });
      const group = this.#groupOf(event.key!);
      event.position = group.next++;
      group.ids.push(event.id);
    }
  }

  async #settle(operation: Operation & { readonly lease: number }): Promise<void> {
    const held = this.#leases[operation.lease % Math.max(1, this.#leases.length)];
    if (!held) return;
    const { event } = held;
    if (operation.op === "recover") return await this.#recover(held);
    const valid = event.lease?.version === held.lease.version;
    if (operation.op === "renew") {
      const renewed = await this.#store.renew(held.lease, LEASE_MS);
      assertEquals(renewed !== null, valid);
      if (renewed) {
        held.lease = renewed;
        Object.assign(event, { lease: renewed, dueAt: Date.now() + LEASE_MS });
      }
      return;
    }
    if (operation.op === "park") return await this.#park(held, valid, operation);
    assertEquals(await this.#call(operation, held.lease), valid);
    if (!valid) return;
    if (operation.op === "bury" || event.isCancelled) return this.#leaveAll(event, "dead");
    if (operation.op === "complete") return this.#leaveAll(event, "done");
    if (operation.op === "emitting") {
      this.#leaveAll(event, "done");
      let [number, step] = [event.emitted + 1, 1];
      for (; this.#events.has(childIdOf("jobs", event.id, number)); step *= 2) number += step;
      event.emitted = number;
      return this.#addEmitted(
        childIdOf("jobs", event.id, number),
        operation.key,
        operation.delayMs,
      );
    }
    const { delayMs = 0 } = operation as { readonly delayMs?: number };
    const dueAt = Date.now() + delayMs;
    if (operation.op !== "retry") event.attempts--;
    Object.assign(event, { state: "queued", attempt: undefined, lease: undefined, dueAt });
  }

  async #park(
    { event, lease }: Held,
    isValid: boolean,
    { name: number, timeoutMs }: { readonly name: number; readonly timeoutMs: number },
  ): Promise<void> {
    const name = `name${number}`;
    const park = () => this.#store.park(lease, { name, timeoutMs });
    if ((lease.record.batch?.events ?? 1) > 1) {
      return void await assertRejects(park, Error, "handled together with");
    }
    const known = this.#names.get(name);
    const isFlagged = lease.record.cancelRequestedAt !== undefined;
    if (known?.event && known.event.id !== event.id && !isFlagged) {
      return void await assertRejects(park, Error, `event ${known.event.id} waits for it already`);
    }
    // Of its own try whose answer was lost, the store says that it has succeeded.
    const { run = 0, attempt, receivedAt } = lease.record;
    const holder = isFlagged ? undefined : known?.event;
    const isRepeated = holder?.runs === run && holder.attempts === attempt - 1 &&
      holder.receivedAt === receivedAt;
    assertEquals(await park(), isValid || isRepeated);
    if (!isValid) return;
    if (event.isCancelled) return this.#leaveAll(event, "dead");
    event.attempts--;
    Object.assign(event, { attempt: undefined, lease: undefined });
    if (known) {
      Object.assign(event, { state: "queued", dueAt: Date.now() });
      return this.#take(event, name);
    }
    this.#names.set(name, { event, value: undefined });
    this.#leave(event, "parked");
    Object.assign(event, {
      wait: undefined,
      last: undefined,
      waitsFor: name,
      dueAt: Date.now() + timeoutMs,
    });
  }

  async #wake(name: string): Promise<void> {
    const known = this.#names.get(name);
    const value = this.#wakes++;
    const outcome = known?.value !== undefined ? "late" : known?.event ? "woken" : "kept";
    assertEquals((await this.#store.wake(name, value)).outcome, outcome);
    if (outcome === "late") return;
    this.#names.set(name, { event: known?.event, value: String(value) });
  }

  /** Deletes a value, unless an event is about to get it, and then once more. */
  async #deleteAnswer(number: number): Promise<void> {
    const answers = await Array.fromAsync(this.#store.answers());
    const isTaken = (known: ModelName) =>
      known.event?.state === "parked" && known.event.waitsFor !== undefined;
    const names = [...this.#names].flatMap(([name, known]) =>
      known.value === undefined ? [] : [name]
    );
    assertEquals(answers.map(({ name }) => name), names.toSorted());
    const answer = answers[number % Math.max(1, answers.length)];
    if (!answer) return;
    const isDeleted = !isTaken(this.#names.get(answer.name)!);
    assertEquals([await answer.delete(), await answer.delete()], [isDeleted, false]);
    if (isDeleted) this.#names.delete(answer.name);
  }

  async #readState(key: string): Promise<void> {
    const state = await this.#store.state<number>(key);
    const known = this.#set.get(key);
    assertEquals(state.value, known?.value);
    this.#states.push({ key, state, changes: known?.changes ?? 0 });
  }

  /** Sets or deletes a state that was read, which says whether others have changed it since. */
  async #changeState({ op, state: number }: Operation & { readonly state: number }): Promise<void> {
    const held = this.#states[number % Math.max(1, this.#states.length)];
    if (!held) return;
    const { key, state } = held;
    const isSame = (this.#set.get(key)?.changes ?? 0) === held.changes;
    const changes = op === "setState" ? ++this.#changes : 0;
    const isMade = changes > 0 ? await state.set(changes) : await state.delete();
    assertEquals(isMade, isSame, `${op} of ${key}`);
    if (!isMade) return;
    held.changes = changes;
    if (changes > 0) this.#set.set(key, { changes, value: changes });
    else this.#set.delete(key);
  }

  #isWoken({ waitsFor }: ModelEvent): boolean {
    return waitsFor !== undefined && this.#names.get(waitsFor)?.value !== undefined;
  }

  /** Ends the wait of an event. */
  #unpark(event: ModelEvent, record: EventRecord): void {
    this.#take(event, event.waitsFor!);
    assertEquals(resultsOf(record), event.results);
    event.waitsFor = undefined;
  }

  #take(event: ModelEvent, name: string): void {
    const value = this.#names.get(name)?.value ?? "timed out";
    this.#names.delete(name);
    event.results = [...event.results, `${name}: ${value}`];
  }

  async #recover(held: Held): Promise<void> {
    const { event } = held;
    const recovered = await this.#store.recover(held.lease);
    assertEquals(recovered !== null, event.attempt === held.attempt);
    if (!recovered) return;
    assertEquals(recovered.record.cancelRequestedAt !== undefined, event.isCancelled);
    held.lease = event.lease = recovered;
  }

  #call(operation: Operation, lease: Lease): Promise<boolean> {
    switch (operation.op) {
      case "complete":
        return this.#store.complete(lease);
      case "emitting": {
        const options = { delayMs: operation.delayMs, ...this.#groupOptions(operation.key) };
        return this.#store.complete(lease, { emits: [emissionOf("jobs", "x", {}, options)] });
      }
      case "bury":
        return this.#store.bury(lease, "buried");
      case "retry":
        return this.#store.retry(lease, operation.delayMs, "retried");
      case "putOff":
        return this.#store.release(lease, { delayMs: operation.delayMs, reason: "put off" });
      default:
        return this.#store.release(lease);
    }
  }

  async #replay(id: string): Promise<void> {
    const event = this.#events.get(id);
    const isPutBack = event !== undefined && this.#canBeReplayed(event);
    assertEquals(await this.#store.replay(id), isPutBack);
    if (isPutBack) this.#enter(again(event));
  }

  #canBeReplayed({ state }: ModelEvent): boolean {
    return state === "dead" || (state === "done" && this.#keepsPayloads);
  }

  async #replayAll(state: "dead" | "done"): Promise<void> {
    // Those without a key first, then in the order received, and by id where that is the same.
    const rank = ({ key, receivedAt }: ModelEvent) => key === undefined ? 0 : receivedAt;
    const meant = this.#byId((event) => event.state === state && this.#canBeReplayed(event))
      .sort((a, b) => rank(a) - rank(b));
    const filter = state === "dead" ? {} : { state };
    const outcomes = await Promise.all(
      meant.map(async ({ id }) => (await this.#store.get(id))?.outcome),
    );
    const wanted = meant.filter((_, i) => outcomes[i] !== "cancelled");
    const { changed } = await this.#store.replayAll(filter, { dryRun: true });
    assertEquals((await this.#store.replayAll(filter)).changed, wanted.length);
    assertEquals(changed, wanted.length);
    for (const event of wanted) {
      this.#enter(again(event));
    }
  }

  async #cancel(id: string): Promise<void> {
    const event = this.#events.get(id);
    const open = event !== undefined && isOpen(event);
    assertEquals(await this.#store.cancel(id), open);
    if (open) this.#giveUp(event);
  }

  async #cancelAll(): Promise<void> {
    const open = this.#byId((event) => isOpen(event) && !event.isCancelled);
    assertEquals((await this.#store.cancelAll({}, { dryRun: true })).changed, open.length);
    assertEquals((await this.#store.cancelAll({})).changed, open.length);
    // The others of a batch go alone, or with its first one: that makes a difference for their attempts.
    const attempts = await Promise.all(open.map(({ id }) => this.#store.get(id)));
    for (const [i, event] of open.entries()) {
      if (isOpen(event)) this.#giveUp(event);
      if (event.state === "dead") event.attempts = attempts[i]!.attempt;
    }
  }

  #giveUp(event: ModelEvent): void {
    if (event.waitsFor !== undefined) this.#names.delete(event.waitsFor);
    event.waitsFor = undefined;
    if (event.state !== "running") return this.#leaveAll(event, "dead");
    // The version of the record is another one now, unless it was cancelled before.
    if (!event.isCancelled) event.lease = undefined;
    event.isCancelled = true;
  }

  #byId(isMeant: (event: ModelEvent) => boolean): ModelEvent[] {
    return [...this.#events.values()].filter(isMeant).sort((a, b) => a.id < b.id ? -1 : 1);
  }

  async #purge(): Promise<void> {
    const settled = [...this.#events.values()].filter((event) => !isOpen(event));
    assertEquals((await this.#store.purge({}, { dryRun: true })).changed, settled.length);
    assertEquals((await this.#store.purge({})).changed, settled.length);
    for (const { id } of settled) this.#events.delete(id);
  }

  #enter(event: ModelEvent): void {
    const now = Date.now();
    this.#events.set(event.id, event);
    event.last = undefined;
    event.dueAt = now;
    if (event.key === undefined) return;
    const isFirst = this.#freeIn(event.key) > 0;
    const group = this.#groupOf(event.key);
    event.position = group.next++;
    group.ids.push(event.id);
    if (!isFirst) event.dueAt = undefined;
    if (!event.wait) return;
    group.joinedAt = now;
    event.wait = { since: now, ms: isFirst ? QUIET_MS : 0, next: isFirst ? group.next : undefined };
    if (isFirst) event.dueAt = now + QUIET_MS;
  }

  #groupOf(key: string): ModelGroup {
    const group = this.#orderingGroups.get(key) ?? { ids: [], next: 0, joinedAt: undefined };
    this.#orderingGroups.set(key, group);
    return group;
  }

  /** Settles an event with the others of its batch. */
  #leaveAll(event: ModelEvent, state: EventState): void {
    for (const other of this.#othersOf(event)) {
      other.attempts = event.attempts;
      this.#leave(other, state);
    }
    this.#leave(event, state);
  }

  /** The last position of the batch that an event begins: up to the first one that is handled by itself. */
  #lastOf({ key, position }: ModelEvent): number {
    const { ids } = this.#orderingGroups.get(key!)!;
    const behind = ids.map((id) => this.#events.get(id)!).filter((each) =>
      each.position > position
    );
    const end = behind.findIndex(({ wait }) => !wait);
    return (end < 0 ? behind : behind.slice(0, end)).at(-1)?.position ?? position;
  }

  /** The others of a batch. One that was cancelled has left it, even if it was sent again since. */
  #othersOf({ key, position, last }: ModelEvent): ModelEvent[] {
    if (last === undefined) return [];
    const all = this.#orderingGroups.get(key!)!.ids.map((id) => this.#events.get(id)!);
    return all.filter((other) => other.position > position && other.position <= last);
  }

  #leave(event: ModelEvent, state: EventState): void {
    const hadPlace = event.dueAt !== undefined;
    Object.assign(event, { state, attempt: undefined, lease: undefined, dueAt: undefined });
    if (event.key === undefined || event.joinsLater) {
      event.joinsLater = false;
      return;
    }
    const group = this.#orderingGroups.get(event.key);
    // A parked event is in none.
    if (!group) return;
    if (!group.ids.includes(event.id)) return;
    group.ids = group.ids.filter((id) => id !== event.id);
    if (group.ids.length === 0) this.#orderingGroups.delete(event.key);
    else if (hadPlace) {
      const next = group.ids.map((id) => this.#events.get(id)!).find(({ dueAt }) =>
        dueAt === undefined
      );
      if (next) next.dueAt = Date.now();
    }
  }
}
