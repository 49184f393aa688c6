#!lua
-- Acquires permits, or joins the queues for them.
--
-- KEYS[5i-4]  used     the i-th; string: how many permits are held, without it they are counted
-- KEYS[5i-3]  queue    zset: hold|kind|weight|lease|grant -> ticket
-- KEYS[5i-2]  permits  zset: hold|weight -> deadline, server ms
-- KEYS[5i-1]  limit    string: how many permits there are, if that is stored
-- KEYS[5i]    alive    zset: client -> server ms at which it counts as gone
-- ARGV[1]     valid    server µs after which this command is refused
-- ARGV[2]     terms    waiter|inbox: ms after which a silent client counts as gone; the prefix of every inbox
-- ARGV[3i]    hold     the i-th hold id
-- ARGV[3i+1]  lease    ms
-- ARGV[3i+2]  wish     mode, then kind|weight|lease|grant|ticket: mode t try, w wait; kind how many permits there are
--                      unless a limit is stored; weight how many are wanted;
--                      grant ms, the lease of a hold that somebody else's script writes;
--                      ticket to queue with again, 0 for a new one
--
-- Returns  the server's µs if the only one is held; else {µs, then three values for each}:
--          1 held, "", 0; 2 queued, ticket[:n], ms until a look is worth while; 3 busy, 0, 0; 4 stale, 0, 0;
--          7 more than there are, how many there are, 0; -1, an error's text, 0.
--          ticket:n if it is right behind the n-th hold id of the same client, which asks for the same.
-- Late     refused after `valid`; until then a second copy may leave a hold or a place,
--          which the client's release after `valid` removes.
-- Cost     O(log n) in queue and permits for each, and up to 100 waiters granted or found dead in all;
--          O(n) in the permits if `used` is missing.
local call = redis.call
local time = call("TIME")
local us = time[1] * 1000000 + time[2]
local stale = us > tonumber(ARGV[1])
local items = #KEYS / 5
-- Permits that are there, of a semaphore without a queue and with nothing to clean up.
local function enter(i)
  local sum, line, held, most = KEYS[5 * i - 4], KEYS[5 * i - 3], KEYS[5 * i - 2], KEYS[5 * i - 1]
  local kind, weight = string.match(ARGV[3 * i + 2], "^.(%d+)|(%d+)|")
  if stale or not kind or call("EXISTS", line) == 1 then return end
  local lease, since, now = ARGV[3 * i + 1], (us - us % 1000) / 1000, 0
  local deadline = call("ZRANGE", held, 0, 0, "WITHSCORES")[2]
  if deadline then
    now = tonumber(call("GET", sum) or nil)
    if not now or tonumber(deadline) <= since then return end
  end
  local stored = call("GET", most)
  if now + weight > (tonumber(stored) or tonumber(kind)) then return end
  -- A second copy finds what the first has made, and changes nothing.
  local new = call("ZADD", held, "NX", string.format("%d", since + lease), ARGV[3 * i] .. "|" .. weight)
  if not deadline then
    call("PEXPIRE", held, lease)
    call("SET", sum, weight, "PX", lease + 1000)
  else
    call("PEXPIRE", held, lease, "GT")
    call("SET", sum, string.format("%d", now + new * weight), "PX", call("PTTL", held) + 1000)
  end
  if stored then call("PEXPIRE", most, 2592000000) end
  return us
end
if items == 1 and enter(1) then return us end

local waiter, inbox = string.match(ARGV[2], "^(.-)|(.*)$")
waiter = tonumber(waiter)
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
