-- What becomes of an owner that holds already, whatever the queue: a status, and a token; nil if it does not hold.
local function again(own, _, hold, kind, _, lease)
  if not own then return end
  if own == "" and kind == "f" then return 5 end
  return 1, write(hold, kind, lease, own)
end
