#!lua
-- Acquires locks, re-enters them, or joins their queues.
--
-- KEYS[4i-3]  lock    the i-th; hash: hold id -> count:deadline:since[:token], server ms
-- KEYS[4i-2]  queue   zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[4i-1]  alive   zset: client -> server ms at which it counts as gone
-- KEYS[4i]    fence   string: the last fencing token
-- ARGV[1]     valid   server µs after which this command is refused
-- ARGV[2]     terms   waiter|inbox: ms after which a silent client counts as gone; the prefix of every inbox
-- ARGV[3i]    hold    the i-th hold id
-- ARGV[3i+1]  lease   ms
-- ARGV[3i+2]  wish    kind, mode|grant|ticket, in one as the fast path needs only the first two letters:
--                     kind - plain, f fenced; mode t try, w wait, r reenter; grant ms, the lease of a hold that
--                     somebody else's script writes; ticket to queue with again, 0 for a new one
--
-- Returns  the server's µs if the only one is held and unfenced; else {µs, then three values for each}:
--          1 held, ":token" or "", 0; 2 queued, ticket, ms until a look is worth while; 3 busy, 0, 0;
--          4 stale, 0, 0; 5 unfenced (a fenced re-entry into a hold without a token), 0, 0;
--          -1, an error's text, 0.
-- Late     refused after `valid`; until then a second copy may leave a hold or a place,
--          which the client's release after `valid` removes.
-- Cost     O(log n) in the queue for each, and up to 100 dead waiters in all.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local stale = us > tonumber(ARGV[1])
-- A plain hold of a lock that is free and has no queue.
local function enter(lock, queue, hold, lease, wish)
  local kind, mode = string.byte(wish, 1, 2)
  if stale or kind ~= 45 or mode == 114 or call("EXISTS", lock, queue) > 0 then return end
  local since = (us - us % 1000) / 1000
  call("HSET", lock, hold, string.format("1:%d:%d", since + lease, since))
  call("PEXPIRE", lock, lease)
  return 1
end
if #KEYS == 4 and enter(KEYS[1], KEYS[2], ARGV[3], ARGV[4], ARGV[5]) then return us end

local waiter, inbox = string.match(ARGV[2], "^(.-)|(.*)$")
waiter = tonumber(waiter)
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
local function grow(key, ttl) if call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: hold
-- When the last hold of the lock that was pruned last is over, ms.
local latest = 0
-- Removes what has run out; returns the token (":n", or "" if unfenced) of the hold that the owner has, if it has one.
local function prune(lock, owner)
  local token
  latest = 0
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline, own = string.match(holds[i + 1], "^%d+:(%d+):%d+(.*)$")
    deadline = tonumber(deadline) or 0
    if deadline <= ms then
      call("HDEL", lock, holds[i])
    elseif owner and string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      token = token or own
    end
    latest = math.max(latest, deadline)
  end
  return token
end
local function mint(fence)
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
local function put(lock, hold, lease, token)
  latest = math.max(latest, ms + lease)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
end
-- end
-- shared: waiter
-- The ms until a look may find something new: at once if dead waiters are left, else when the last hold is over.
local function look_in(longest)
  return more == 1 and 0 or latest > ms and latest - ms or longest
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
      local message = "granted " .. text(us) .. " " .. entry .. token
      local told = redis.pcall("PUBLISH", inbox .. client, message)
      -- Without the right to publish the entry stays, and its own look grants it.
      if type(told) == "table" then return end
      if told > 0 then
        news[#news + 1] = message
        put(lock, hold, tonumber(first), token)
      end
    end
    leave(queue, alive, entry)
  end
end
-- end
local function join(queue, alive, entry, client, ticket)
  if ticket == 0 then ticket = math.max(us, (tonumber(call("ZRANGE", queue, -1, -1, "WITHSCORES")[2]) or 0) + 1) end
  call("ZADD", queue, "NX", text(ticket), entry)
  grow(queue, waiter)
  call("ZREMRANGEBYSCORE", alive, 0, text(ms))
  call("ZADD", alive, "GT", text(ms + waiter), client)
  grow(alive, waiter)
  return ticket
end
local function one(i)
  local lock, queue, alive, fence = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]
  local hold, lease, wish = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  if stale then return 4, 0, 0 end
  local kind, mode, first, ticket = string.match(wish, "^(.)(.)|(.-)|(.-)$")
  local owner, client = string.match(hold, "^(.-)/(.-)%.")
  local entry = table.concat({hold, kind, "1", text(lease), first}, "|")
  local token = prune(lock, owner)
  if token then
    -- A second copy may find the place of the first.
    leave(queue, alive, entry)
    if token == "" and kind == "f" then return 5, 0, 0 end
    put(lock, hold, lease, token)
    return 1, token, 0
  end
  if mode == "r" then return 3, 0, 0 end
  if mode == "t" then grant(lock, queue, alive, fence) end
  if call("EXISTS", lock, queue) == 0 then
    token = kind == "f" and mint(fence) or ""
    put(lock, hold, lease, token)
    return 1, token, 0
  end
  if mode == "t" then return 3, 0, 0 end
  ticket = join(queue, alive, entry, client, tonumber(ticket))
  token = grant(lock, queue, alive, fence, entry)
  if token then return 1, token, 0 end
  return 2, ticket, look_in(waiter)
end

local reply = {us}
for i = 1, #KEYS / 4 do
  local status, value, look = 1, "", 0
  if #KEYS == 4 or not enter(KEYS[4 * i - 3], KEYS[4 * i - 2], ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]) then
    local ok
    ok, status, value, look = pcall(one, i)
    if not ok then status, value, look = -1, type(status) == "table" and status.err or status, 0 end
  end
  reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = status, value, look
end
return reply
