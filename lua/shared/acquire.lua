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
