-- Whether the owner reads, and whether anybody else does.
local function reading(owner)
  local own, others = false, false
  for _, hold in ipairs(call("ZRANGE", readers, 0, -1)) do
    local is = string.sub(hold, 1, #owner + 1) == owner .. "/"
    own, others = own or is, others or not is
  end
  return own, others
end
-- What becomes of an owner that holds already, whatever the queue: a status, and a token; nil if it does not hold.
local function again(own, owner, hold, kind, weight, lease, mode)
  if own then
    if own == "" and kind == "f" then return 5 end
    return 1, put(hold, kind, weight, lease, own)
  end
  if call("ZSCORE", readers, hold) then return 1, put(hold, kind, weight, lease) end
  -- An owner that was made for this hold has no other.
  local client, number = string.match(hold, "/(.-)%.(.*)$")
  if owner == client .. ":" .. number then return end
  local reads, others = reading(owner)
  if not reads then return end
  local writes = kind == "-" or kind == "f"
  if not writes or mode == "u" and not others then return 1, put(hold, kind, weight, lease) end
  return mode == "u" and 3 or 6
end
