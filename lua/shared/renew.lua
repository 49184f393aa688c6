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
