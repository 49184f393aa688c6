local function revoke(hold)
  local held, client = erase(hold), string.match(hold, "/(.-)%.")
  if held > 0 and client then redis.pcall("PUBLISH", inbox .. client, "revoked " .. hold) end
  return held
end
local function remove(queued, entry)
  if string.byte(entry) == 33 then return revoke(string.sub(entry, 2)) end
  local held = drop(entry)
  return held == 0 and queued and leave(entry) or held
end
local function serve()
  prune()
  grant()
end

local reply, from = {0}, 2
for i = 1, items do
  at(i)
  local queued, last = call("EXISTS", queue) == 1, from + tonumber(ARGV[from])
  for k = from + 1, last do
    local ok, status = pcall(remove, queued, ARGV[k])
    -- pcall gives the error's text and not a table, from Redis 7 on.
    reply[#reply + 1] = (ok or type(status) == "string") and status or status.err
  end
  -- What keeps a waiter from being served is the waiter's affair, and told it when it looks.
  if queued then pcall(serve) end
  from = last + 1
end
reply[1] = more
for _, message in ipairs(news) do reply[#reply + 1] = message end
return reply
