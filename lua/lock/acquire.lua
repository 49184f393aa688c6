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
-- ARGV[3i+2]  wish    mode, then kind|weight|lease|grant|ticket, in one as the fast path needs only the first letters:
--                     mode t try, w wait, r reenter; kind - plain, f fenced; weight 1;
--                     grant ms, the lease of a hold that somebody else's script writes;
--                     ticket to queue with again, 0 for a new one
--
-- Returns  the server's µs if the only one is held and unfenced; else {µs, then three values for each}:
--          1 held, ":token" or "", 0; 2 queued, ticket[:n], ms until a look is worth while; 3 busy, 0, 0;
--          4 stale, 0, 0; 5 unfenced (a fenced re-entry into a hold without a token), 0, 0;
--          -1, an error's text, 0.
--          ticket:n if it is right behind the n-th hold id of the same client, which asks for the same.
-- Late     refused after `valid`; until then a second copy may leave a hold or a place,
--          which the client's release after `valid` removes.
-- Cost     O(log n) in the queue for each, and up to 100 dead waiters in all.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local stale = us > tonumber(ARGV[1])
local items = #KEYS / 4
-- A plain hold of a lock that is free and has no queue.
local function enter(i)
  local key, hold, lease = KEYS[4 * i - 3], ARGV[3 * i], ARGV[3 * i + 1]
  local mode, kind = string.byte(ARGV[3 * i + 2], 1, 2)
  if stale or kind ~= 45 or mode == 114 or call("EXISTS", key, KEYS[4 * i - 2]) > 0 then return end
  local since = (us - us % 1000) / 1000
  call("HSET", key, hold, string.format("1:%d:%d", since + lease, since))
  call("PEXPIRE", key, lease)
  return us
end
if items == 1 and enter(1) then return us end

local waiter, inbox = string.match(ARGV[2], "^(.-)|(.*)$")
waiter = tonumber(waiter)
local lock, queue, alive, fence
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
-- With nothing to add it touches nothing: PEXPIRE by 0 would delete a key that somebody has made permanent.
local function grow(key, ttl) if ttl > 0 and call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: hash
-- When the last hold is over, ms.
local ends
-- Removes what has run out; returns the token (":n", or "" if unfenced) of the hold that the owner has, if it has one.
local function sweep(owner)
  local token
  ends = 0
  local holds = call("HGETALL", lock)
  for i = 1, #holds, 2 do
    local deadline, own = string.match(holds[i + 1], "^%d+:(%d+):%d+(.*)$")
    deadline = tonumber(deadline) or 0
    if deadline <= ms then
      call("HDEL", lock, holds[i])
    elseif owner and string.sub(holds[i], 1, #owner + 1) == owner .. "/" then
      token = token or own
    end
    ends = math.max(ends, deadline)
  end
  return token
end
local function mint()
  if tonumber(call("GET", fence) or 0) < us then call("SET", fence, text(us)) else call("INCR", fence) end
  call("PEXPIRE", fence, 86400000)
  return ":" .. call("GET", fence)
end
-- Writes a hold, with a token if it has to have one.
local function write(hold, kind, lease, token)
  token = token or kind == "f" and mint() or ""
  ends = math.max(ends, ms + lease)
  call("HSETNX", lock, hold, "1:" .. text(ms + lease) .. ":" .. text(ms) .. token)
  grow(lock, lease)
  return token
end
-- end
-- shared: lock
-- The rule of entry: one owner at a time, as often as it likes.
-- Takes up the i-th lock.
local function at(i) lock, queue, alive, fence = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i] end
local prune = sweep
-- Whether the first of the queue may fit at all, and whether it does.
local function open() return call("EXISTS", lock) == 0 end
local function fits() return true end
local function put(hold, kind, _, lease) return write(hold, kind, lease) end
local function erase(hold) return call("HDEL", lock, hold) end
local function drop(entry) return erase(string.match(entry, "^[^|]+")) end
-- end
-- shared: lock_again
-- What becomes of an owner that holds already, whatever the queue: a status, and a token; nil if it does not hold.
local function again(own, _, hold, kind, _, lease)
  if not own then return end
  if own == "" and kind == "f" then return 5 end
  return 1, write(hold, kind, lease, own)
end
-- end
-- shared: grant
local function leave(entry)
  local left = call("ZREM", queue, entry)
  -- Not DEL, which would take data of another type as well.
  if call("EXISTS", queue) == 0 then redis.pcall("ZREMRANGEBYSCORE", alive, "-inf", "+inf") end
  return left
end
-- Tells a client that some of its waiters hold now; true if it does not hear, and they are gone.
local function deaf(client, entries, words)
  local message = "granted " .. text(us) .. " " .. table.concat(words, " ")
  local told = redis.pcall("PUBLISH", inbox .. client, message)
  -- Without the right to publish they stay in the queue, and their own looks let them in.
  local denied = type(told) == "table"
  for _, entry in ipairs(entries) do
    if denied or told == 0 then drop(entry) end
    if not denied then leave(entry) end
  end
  if not denied and told > 0 then news[#news + 1] = message end
  return told == 0
end
-- Lets in those at the head of the queue that fit; returns the token of `mine` if that is one of them.
-- A dead waiter's entry goes at once: passed over but kept, it would keep others out.
local function grant(mine)
  local token, anew
  repeat
    local clients, entries, words, from = {}, {}, {}, 0
    while open() do
      local entry = call("ZRANGE", queue, from, from)[1]
      if not entry then break end
      local hold, client, kind, weight, lease, first =
        string.match(entry, "^(.-/(.-)%..-)|(.-)|(%d+)|(%d+)|(%d+)$")
      local fit = hold and fits(kind, tonumber(weight))
      if fit == false then break end
      if budget == 0 then more = 1 break end
      budget = budget - 1
      if fit and entry == mine then
        leave(entry)
        token = put(hold, kind, weight, tonumber(lease))
      elseif fit and (entries[client] or tonumber(call("ZSCORE", alive, client) or 0) > ms) then
        if not entries[client] then entries[client], words[client], clients[#clients + 1] = {}, {}, client end
        local list, said = entries[client], words[client]
        list[#list + 1], said[#said + 1] = entry, entry .. put(hold, kind, weight, tonumber(first))
        from = from + 1
      else
        -- Dead, or too heavy for ever, or no entry of ours.
        leave(entry)
      end
    end
    anew = false
    for _, client in ipairs(clients) do anew = deaf(client, entries[client], words[client]) or anew end
  until not anew
  return token
end
-- end
-- shared: waiter
-- The client lives, and so do its places in the queue.
local function live(client)
  grow(queue, waiter)
  call("ZADD", alive, "GT", text(ms + waiter), client)
  grow(alive, waiter)
end
-- The ms until a look may find something new: at once if dead waiters are left, else when the holds in the way end.
local function look_in() return more == 1 and 0 or ends > ms and ends - ms or waiter end
-- end
-- shared: acquire
-- Returns the ticket, and with it the number of the hold of the same client that it is right behind, if there is one.
local function join(entry, client, rest, ticket)
  local place
  if ticket == 0 then
    local last = call("ZRANGE", queue, -1, -1, "WITHSCORES")
    ticket = math.max(us, (tonumber(last[2]) or 0) + 1)
    local whose, number, same = string.match(last[1] or "", "/(.-)%.(%d+)|(.*)$")
    if whose == client and same == rest then place = text(ticket) .. ":" .. number end
  end
  call("ZADD", queue, "NX", text(ticket), entry)
  call("ZREMRANGEBYSCORE", alive, 0, text(ms))
  live(client)
  return place or ticket
end
local function one(i)
  if stale then return 4, 0, 0 end
  if items > 1 and enter(i) then return 1, "", 0 end
  local hold, lease = ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  local mode, rest, ticket = string.match(ARGV[3 * i + 2], "^(.)(.*)|(%d+)$")
  local kind, weight = string.match(rest, "^(.-)|(%d+)|")
  local owner, client = string.match(hold, "^(.-)/(.-)%.")
  local entry = hold .. "|" .. rest
  at(i)
  local own = prune(owner)
  local status, token = again(own, owner, hold, kind, weight, lease, mode)
  if status then
    -- A second copy may find the place of the first.
    if leave(entry) > 0 then grant() end
    return status, token or 0, 0
  end
  if mode == "r" or mode == "u" then return 3, 0, 0 end
  if mode == "t" then grant() end
  if call("EXISTS", queue) == 0 and open() and fits(kind, tonumber(weight)) then
    return 1, put(hold, kind, weight, lease), 0
  end
  if mode == "t" then return 3, 0, 0 end
  ticket = join(entry, client, rest, tonumber(ticket))
  token = grant(entry)
  if token then return 1, token, 0 end
  return 2, ticket, look_in()
end

local reply = {us}
for i = 1, items do
  local ok, status, value, look = pcall(one, i)
  if not ok then status, value, look = -1, type(status) == "table" and status.err or status, 0 end
  reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = status, value, look
end
return reply
-- end
