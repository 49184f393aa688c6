-- The rule of entry: one owner at a time, as often as it likes.
-- Takes up the i-th lock.
local function at(i) lock, queue, alive, fence = KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i] end
local prune = sweep
-- Whether the first of the queue may fit at all, and whether it does.
local function open() return call("EXISTS", lock) == 0 end
local function fits() return true end
local function put(hold, kind, _, lease) return write(hold, kind, lease) end
local function erase(hold) return call("HDEL", lock, hold) end
local function drop(entry) return erase(string.match(entry, "^[^|]+")) end
