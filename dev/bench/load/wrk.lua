-- Sends one signed delivery again and again, each time under an id of its own. A share of the
-- requests repeats one of the last 1,000 ids, as a sender does that missed the answer.

local RECENT = 1000
local head, tail, share
local the_thread
sent = 0

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function setup(thread)
  the_thread = thread
end

function init()
  local body = read(os.getenv("BENCH_BODY"))
  share = tonumber(os.getenv("BENCH_REDELIVERIES"))
  head = "POST /webhook HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port .. "\r\n"
    .. read(os.getenv("BENCH_HEADERS"))
    .. "Content-Length: " .. #body .. "\r\n"
    .. "X-GitHub-Delivery: " .. os.getenv("BENCH_RUN") .. "-"
  tail = "\r\n\r\n" .. body
end

function request()
  local id
  if share > 0 and sent > RECENT and math.random() < share then
    id = sent - math.random(RECENT)
  else
    sent = sent + 1
    id = sent
  end
  return head .. string.format("%08d", id) .. tail
end

function done(summary, latency)
  io.write(string.format(
    '\nRESULT {"requests":%d,"failed":%d,"ids":%d,"seconds":%.6f,"p50Ms":%.3f,"p99Ms":%.3f}\n',
    summary.requests, summary.errors.status, the_thread:get("sent"), summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
