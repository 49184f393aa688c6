#!lua
-- Acquires a lock, re-enters it, or joins its queue.
--
-- KEYS[1]  lock    hash: hold id -> count:deadline:since[:token], server ms
-- KEYS[2]  queue   zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[3]  alive   zset: client -> server ms at which it counts as gone
-- KEYS[4]  fence   string: the last fencing token
-- ARGV[1]  hold id
-- ARGV[2]  lease   ms
-- ARGV[3]  valid   server µs after which this command is refused
-- ARGV[4]  mode    try, wait, or reenter
-- ARGV[5]  terms   kind|grant|waiter|ticket|inbox, in one as the fast path needs only the first letter:
--                  kind - plain, f fenced; grant ms, the lease of a hold that somebody else's script writes;
--                  waiter ms, after which a silent client counts as gone; ticket to queue with again, 0 for
--                  a new one; inbox, the prefix of every client's channel
--
-- Returns  the server's µs if held and unfenced; else {1 held, µs, :token},
--          {2 queued, µs, ticket, ms until a look is worth while}, {3 busy, µs}, {4 stale, µs},
--          {5 unfenced, µs}: a fenced re-entry into a hold without a token.
-- Late     refused after `valid`; until then a second copy may leave a hold or a place,
--          which the client's release after `valid` removes.
-- Cost     O(log n) in the queue, and up to 100 dead waiters.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
if us > tonumber(ARGV[3]) then return {4, us} end
if string.byte(ARGV[5]) == 45 and ARGV[4] ~= "reenter" and call("EXISTS", KEYS[1], KEYS[2]) == 0 then
  local since = (us - us % 1000) / 1000
  call("HSET", KEYS[1], ARGV[1], string.format("1:%d:%d", since + ARGV[2], since))
  call("PEXPIRE", KEYS[1], ARGV[2])
  return us
end

local inbox = string.match(ARGV[5], "^.-|.-|.-|.-|(.*)$")
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget = 0, 100
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
local function grow(key, ttl) if call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: hold
local function prune(lock)
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline = tonumber(string.match(holds[i + 1], "^%d+:(%d+):%d+"))
    if not deadline or deadline <= ms then call("HDEL", lock, holds[i]) end
  end
end
local function mint(fence)
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
local function put(lock, hold, lease, token)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
end
-- end
-- shared: waiter
-- The token (":n", or "" if unfenced) of the hold that the owner has; nil if it has none.
local function held_by(lock, owner)
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    if string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      return string.match(holds[i + 1], "^%d+:%d+:%d+(.*)$")
    end
  end
end
-- The ms until a look may find something new: at once if dead waiters are left, else when the last lease is over.
local function look_in(lock, longest)
  local left = call("PTTL", lock)
  return more == 1 and 0 or left < 0 and longest or left
end
-- end
-- shared: grant
local function leave(queue, alive, entry)
  local left = call("ZREM", queue, entry)
  -- Not DEL, which would take data of another type as well.
  if call("EXISTS", queue) == 0 then redis.pcall("ZREMRANGEBYSCORE", alive, "-inf", "+inf") end
  return left
end
-- Gives a free lock to the first waiter that lives, and returns its token if that is `own`.
-- A dead waiter's entry goes at once: passed over but kept, it would leave the lock free behind it.
local function grant(lock, queue, alive, fence, own)
  while call("EXISTS", lock) == 0 do
    local entry = call("ZRANGE", queue, 0, 0)[1]
    if not entry then return end
    if budget == 0 then more = 1 return end
    budget = budget - 1
    local hold, client, kind, lease, first = string.match(entry, "^(.-/(.-)%..-)|(.-)|.-|(%d+)|(%d+)$")
    if entry == own then
      local token = kind == "f" and mint(fence) or ""
      leave(queue, alive, entry)
      put(lock, hold, tonumber(lease), token)
      return token
    end
    -- What is no entry of ours can hold nothing, and goes like the dead.
    if hold and tonumber(call("ZSCORE", alive, client) or 0) > ms then
      local token = kind == "f" and mint(fence) or ""
      local told = redis.pcall("PUBLISH", inbox .. client, "granted " .. text(us) .. " " .. entry .. token)
      -- Without the right to publish the entry stays, and its own look grants it.
      if type(told) == "table" then return end
      if told > 0 then put(lock, hold, tonumber(first), token) end
    end
    leave(queue, alive, entry)
  end
end
-- end
local lock, queue, alive, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, lease, mode = ARGV[1], ARGV[2], ARGV[4]
local kind, first, waiter, ticket = string.match(ARGV[5], "^(.-)|(.-)|(.-)|(.-)|")
local function held(token) if token == "" then return us end return {1, us, token} end

prune(lock)
local owner, client = string.match(hold, "^(.-)/(.-)%.")
local token = held_by(lock, owner)
if token then
  if token == "" and kind == "f" then return {5, us} end
  put(lock, hold, tonumber(lease), token)
  return held(token)
end
if mode == "reenter" then return {3, us} end
if mode == "try" then grant(lock, queue, alive, fence) end
if call("EXISTS", lock, queue) == 0 then
  token = kind == "f" and mint(fence) or ""
  put(lock, hold, tonumber(lease), token)
  return held(token)
end
if mode == "try" then return {3, us} end

waiter, ticket = tonumber(waiter), tonumber(ticket)
local entry = table.concat({hold, kind, "1", lease, first}, "|")
if ticket == 0 then ticket = math.max(us, (tonumber(call("ZRANGE", queue, -1, -1, "WITHSCORES")[2]) or 0) + 1) end
call("ZADD", queue, "NX", text(ticket), entry)
grow(queue, waiter)
call("ZREMRANGEBYSCORE", alive, 0, text(ms))
call("ZADD", alive, "GT", text(ms + waiter), client)
grow(alive, waiter)
token = grant(lock, queue, alive, fence, entry)
if token then return held(token) end
return {2, us, ticket, look_in(lock, waiter)}
