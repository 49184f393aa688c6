#!lua flags=allow-oom
-- Renews holds, and looks for those who wait: a waiter's sign of life and question for its turn.
--
-- KEYS[5i-4]  used     of the i-th id; string: how many permits are held, without it they are counted
-- KEYS[5i-3]  queue    zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[5i-2]  permits  zset: hold|weight -> deadline, server ms
-- KEYS[5i-1]  limit    string: how many permits there are, if that is stored
-- KEYS[5i]    alive    zset: client -> server ms at which it counts as gone
-- ARGV[1]     inbox    the prefix of every client's channel
-- ARGV[2]     waiter   ms, after which a silent client counts as gone
-- ARGV[3i]    entry    hold|kind|weight|lease|grant of the i-th id
-- ARGV[3i+1]  lease    ms that a hold gets at least from now; 0 only asks
-- ARGV[3i+2]  count    not used
--
-- Returns  {µs, 1 if more waiters can be served, then a status and a value for each id}:
--          0 gone, 1 held and "", 2 queued and the ms until a look is worth while,
--          7 more than there are, as after a new limit, and how many there are, -1 and an error's text.
-- Late     harmless: gives nothing to an id that neither holds nor waits.
-- Cost     O(log n) in queue and permits for each id, and up to 100 waiters granted or found dead in all.
local call = redis.call
local inbox, waiter = ARGV[1], tonumber(ARGV[2])
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local items = #KEYS / 5
local used, queue, permits, limit, alive
-- shared: clock
local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
-- With nothing to add it touches nothing: PEXPIRE by 0 would delete a key that somebody has made permanent.
local function grow(key, ttl) if ttl > 0 and call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
-- end
-- shared: semaphore
-- The rule of entry: as many permits as the limit allows, which is the stored one, or else the one that the kind names.
-- When the first of the holds is over, ms; the stored limit.
local ends, set
-- Takes up the i-th semaphore.
local function at(i)
  used, queue, permits = KEYS[5 * i - 4], KEYS[5 * i - 3], KEYS[5 * i - 2]
  limit, alive = KEYS[5 * i - 1], KEYS[5 * i]
end
local function weigh(member) return tonumber(string.match(member, "|(%d+)$")) or 0 end
local function taken()
  if call("EXISTS", permits) == 0 then return 0 end
  local sum = tonumber(call("GET", used) or nil)
  if sum then return sum end
  sum = 0
  for _, member in ipairs(call("ZRANGE", permits, 0, -1)) do sum = sum + weigh(member) end
  return sum
end
local function note(sum)
  local ttl = call("PTTL", permits)
  if ttl == -2 then call("DEL", used) else call("SET", used, text(sum), "PX", math.max(ttl, 0) + 1000) end
end
local function prune()
  set = tonumber(call("GET", limit) or nil)
  -- A stored limit lives for 30 days beyond its last use.
  if set then grow(limit, 2592000000) end
  local over = call("ZCOUNT", permits, "-inf", text(ms))
  if over > 1000 then over, more = 1000, 1 end
  if over > 0 then
    local sum = taken()
    for _, member in ipairs(call("ZRANGE", permits, 0, over - 1)) do sum = sum - weigh(member) end
    call("ZREMRANGEBYRANK", permits, 0, over - 1)
    note(sum)
  end
  ends = tonumber(call("ZRANGE", permits, 0, 0, "WITHSCORES")[2]) or 0
end
-- Whether the first of the queue may fit at all, and whether it does; nil if it never will.
local function open() return true end
local function fits(kind, weight)
  local most = set or tonumber(kind) or 0
  if weight <= most then return taken() + weight <= most end
end
local function put(hold, _, weight, lease)
  local sum = taken()
  local new = call("ZADD", permits, "GT", text(ms + lease), hold .. "|" .. weight)
  grow(permits, lease)
  note(sum + new * weight)
  ends = ends > ms and math.min(ends, ms + lease) or ms + lease
  return ""
end
local function erase(member)
  if call("ZREM", permits, member) == 0 then return 0 end
  local sum = tonumber(call("GET", used) or nil)
  -- Without a sum the rest is counted when it matters.
  if sum then note(sum - weigh(member)) end
  return 1
end
local function drop(entry)
  local hold, weight = string.match(entry, "^(.-)|.-|(%d+)|")
  return erase(hold .. "|" .. weight)
end
-- end
-- shared: semaphore_again
-- What is decided whatever the queue: a status, and a token; nil if nothing is.
local function again(_, _, hold, kind, weight)
  local most = set or tonumber(kind)
  if tonumber(weight) > most then return 7, most end
  -- A second copy finds what the first has made.
  if call("ZSCORE", permits, hold .. "|" .. weight) then return 1, "" end
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
local function extend(hold, kind, weight, lease)
  if call("ZSCORE", permits, hold .. "|" .. weight) then return put(hold, kind, weight, lease) end
end
-- shared: renew
local function one(i)
  local entry, lease, count = ARGV[3 * i], tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  local hold, owner, client, kind, weight, full =
    string.match(entry, "^((.-)/(.-)%..-)|(.-)|(%d+)|(%d+)|")
  at(i)
  local own = prune(owner)
  local token = extend(hold, kind, weight, lease, count)
  if token then return 1, token end
  if not call("ZSCORE", queue, entry) then
    grant()
    return 0, 0
  end
  local status
  status, token = again(own, owner, hold, kind, weight, tonumber(full), "w")
  if status then
    leave(entry)
    grant()
    return status, token or 0
  end
  live(client)
  token = grant(entry)
  if token then return 1, token end
  return 2, look_in()
end

local reply = {us, 0}
for i = 1, items do
  local ok, status, value = pcall(one, i)
  if not ok then status, value = -1, type(status) == "table" and status.err or status end
  reply[#reply + 1], reply[#reply + 2] = status, value
end
reply[2] = more
return reply
-- end
