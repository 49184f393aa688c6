-- What is decided whatever the queue: a status, and a token; nil if nothing is.
local function again(_, _, hold, kind, weight)
  local most = set or tonumber(kind)
  if tonumber(weight) > most then return 7, most end
  -- A second copy finds what the first has made.
  if call("ZSCORE", permits, hold .. "|" .. weight) then return 1, "" end
end
