local ms = (us - us % 1000) / 1000
local more, budget, news = 0, 100, {}
-- Not tostring or "..", which spoil numbers of this size.
local function text(number) return string.format("%d", number) end
-- With nothing to add it touches nothing: PEXPIRE by 0 would delete a key that somebody has made permanent.
local function grow(key, ttl) if ttl > 0 and call("PTTL", key) < ttl then call("PEXPIRE", key, ttl) end end
