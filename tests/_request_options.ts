/**
 * Part of `RequestInit` that the tests use. On Deno 2.5 `app.request()` takes Node's `RequestInit`
 * instead of the global one, since Hono comes from npm where `links` are in use; this fits both.
 */
export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Headers | Record<string, string> | [string, string][];
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
}
