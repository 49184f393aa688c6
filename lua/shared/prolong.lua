-- Extends a hold, and returns its token; nil if it is not there.
local function prolong(hold, lease, count)
  local value = call("HGET", lock, hold)
  if not value then return end
  local old, deadline, since, token = string.match(value, "^(%d+):(%d+):(%d+)(.*)$")
  if lease > 0 or old ~= count then
    local later = text(math.max(tonumber(deadline), ms + lease))
    call("HSET", lock, hold, count .. ":" .. later .. ":" .. since .. token)
    grow(lock, lease)
  end
  return token
end
