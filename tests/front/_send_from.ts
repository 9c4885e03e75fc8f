/** Sends a request, as `node:http` takes it, with a body, and prints the status. */
import { request } from "node:http";

const [options, body] = Deno.args;
request(JSON.parse(options!), (response) => {
  console.log(response.statusCode);
  response.resume();
}).end(body);
