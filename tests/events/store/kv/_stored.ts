/**
 * Entries that a store has written for events in each state, and for all else that it keeps, in the first encoding of
 * its values: the first five bytes of each, its JSON, and its body. Other versions must read it, so it is not changed.
 */
export const STORED: readonly (readonly [
  key: readonly Deno.KvKeyPart[],
  head: string,
  json: string,
  body?: string,
])[] = [
  [["id", "queued"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "queued"],
    "0100000239",
    `{"id":"queued","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"queued","attempt":0,"dueAt":1700000000000,"orderingKey":null,"group":null,"lease":null,"settledAt":null,"payload":{"id":"lp0000-queued","size":7},"attempts":[],"causedBy":"b","putOff":{"since":1700000000001,"at":1700000000002,"times":2,"reason":"Rate limit"},"repository":{"id":1,"fullName":"a/b","owner":"a","name":"b"},"chat":{"id":2,"type":"private"},"sender":{"id":3,"name":"é","isBot":false}}`,
  ],
  [["id", "retried"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "retried"],
    "0100000240",
    `{"id":"retried","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"queued","attempt":1,"dueAt":1700000000010,"orderingKey":null,"group":null,"lease":null,"settledAt":null,"payload":{"id":"lp0000-retried","size":7},"attempts":[{"attempt":1,"startedAt":1700000000001,"endedAt":1700000000005,"outcome":"failed","error":"no"}],"delayMs":5,"progress":["part"],"run":1,"keyRun":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","engine":{"idKept":true}}`,
  ],
  [["id", "first"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "first"],
    "0100000162",
    `{"id":"first","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"queued","attempt":0,"dueAt":1700000000000,"orderingKey":"repo","group":{"key":"repo","position":0},"lease":null,"settledAt":null,"payload":{"id":"lp0000-first","size":7},"attempts":[]}`,
  ],
  [["id", "second"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "second"],
    "010000015b",
    `{"id":"second","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"queued","attempt":0,"dueAt":null,"orderingKey":"repo","group":{"key":"repo","position":1},"lease":null,"settledAt":null,"payload":{"id":"lp0000-second","size":7},"attempts":[]}`,
  ],
  [["id", "running"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "running"],
    "01000001b5",
    `{"id":"running","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"running","attempt":1,"dueAt":1700000030000,"orderingKey":null,"group":null,"lease":{"owner":"11111111-1111-4111-8111-111111111111","until":1700000030000,"ms":30000,"startedAt":1700000000000},"settledAt":null,"payload":{"id":"lp0000-running","size":7},"attempts":[]}`,
  ],
  [["id", "flagged"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "flagged"],
    "01000001d7",
    `{"id":"flagged","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"running","attempt":1,"dueAt":1700000030000,"orderingKey":null,"group":null,"lease":{"owner":"11111111-1111-4111-8111-111111111111","until":1700000030000,"ms":30000,"startedAt":1700000000000},"settledAt":null,"payload":{"id":"lp0000-flagged","size":7},"attempts":[],"cancelRequestedAt":1700000000009}`,
  ],
  [["id", "shared1"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "shared1"],
    "0100000209",
    `{"id":"shared1","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"running","attempt":1,"dueAt":1700000030000,"orderingKey":null,"group":null,"lease":{"owner":"11111111-1111-4111-8111-111111111111","until":1700000030000,"ms":30000,"startedAt":1700000000000},"settledAt":null,"payload":{"id":"lp0000-shared1","size":7},"attempts":[],"engine":{"holdsPayload":true,"sharedEntry":"22222222-2222-4222-8222-222222222222"}}`,
    `{"a":1}`,
  ],
  [["id", "shared2"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "shared2"],
    "0100000209",
    `{"id":"shared2","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"running","attempt":1,"dueAt":1700000030000,"orderingKey":null,"group":null,"lease":{"owner":"11111111-1111-4111-8111-111111111111","until":1700000030000,"ms":30000,"startedAt":1700000000000},"settledAt":null,"payload":{"id":"lp0000-shared2","size":7},"attempts":[],"engine":{"holdsPayload":true,"sharedEntry":"22222222-2222-4222-8222-222222222222"}}`,
    `{"a":1}`,
  ],
  [["id", "parked"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "parked"],
    "01000001a5",
    `{"id":"parked","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"parked","attempt":1,"dueAt":1700000060000,"orderingKey":null,"group":null,"lease":null,"settledAt":null,"payload":{"id":"lp0000-parked","size":7},"attempts":[],"isBegun":true,"waitingFor":{"name":"answer","since":1700000000000,"until":1700000060000}}`,
  ],
  [["id", "done"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "done"],
    "0100000193",
    `{"id":"done","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"done","attempt":1,"dueAt":null,"orderingKey":null,"group":null,"lease":null,"settledAt":1700000000009,"payload":null,"attempts":[{"attempt":1,"startedAt":1700000000001,"endedAt":1700000000005,"outcome":"ignored"}],"outcome":"ignored"}`,
  ],
  [["id", "dead"], "010000000d", `1700000000000`],
  [
    ["event", 1700000000000, "dead"],
    "01000001b7",
    `{"id":"dead","intake":"forge","deliveryId":"x","platform":"forge","source":"github","type":"push","action":"opened","requestId":"r1","receivedAt":1700000000000,"state":"dead","attempt":1,"dueAt":null,"orderingKey":null,"group":null,"lease":null,"settledAt":1700000000009,"payload":{"id":"lp0000-dead","size":7},"attempts":[{"attempt":1,"startedAt":1700000000001,"endedAt":1700000000005,"outcome":"failed","error":"no"}],"outcome":"failed"}`,
  ],
  [["dead", 1700000000000, "dead"], "0100000004", `true`],
  [["lane", "repo"], "0100000013", `{"next":2,"size":2}`],
  [["place", "repo", 0], "0100000029", `{"id":"first","receivedAt":1700000000000}`],
  [["place", "repo", 1], "010000002a", `{"id":"second","receivedAt":1700000000000}`],
  [
    ["due", 1700000000000, "queued"],
    "0100000035",
    `{"receivedAt":1700000000000,"group":null,"delayMs":0}`,
  ],
  [
    ["due", 1700000000010, "retried"],
    "0100000035",
    `{"receivedAt":1700000000000,"group":null,"delayMs":5}`,
  ],
  [
    ["due", 1700000000000, "first"],
    "010000004c",
    `{"receivedAt":1700000000000,"group":{"key":"repo","position":0},"delayMs":0}`,
  ],
  [
    ["due", 1700000030000, "running"],
    "0100000039",
    `{"receivedAt":1700000000000,"group":null,"delayMs":30000}`,
  ],
  [
    ["due", 1700000030000, "flagged"],
    "0100000039",
    `{"receivedAt":1700000000000,"group":null,"delayMs":30000}`,
  ],
  [
    ["due", 1700000060000, "parked"],
    "0100000039",
    `{"receivedAt":1700000000000,"group":null,"delayMs":60000}`,
  ],
  [
    ["due", 1700000030000, "22222222-2222-4222-8222-222222222222"],
    "0100000074",
    `{"events":[{"id":"shared1","receivedAt":1700000000000},{"id":"shared2","receivedAt":1700000000000}],"delayMs":30000}`,
  ],
  [
    ["waiter", "answer"],
    "010000003a",
    `{"for":{"id":"parked","receivedAt":1700000000000,"run":0}}`,
  ],
  [["waiter", "early"], "010000002d", String.raw`{"at":1700000000000,"value":"{\"yes\":true}"}`],
  [["state", "telegram", "chat:1"], "010000002d", `{"until":null,"value":{"step":1,"text":"é"}}`],
  [["cron", "digest"], "010000002b", `{"plan":"0 7 * * * UTC","at":1700000000000}`],
];
