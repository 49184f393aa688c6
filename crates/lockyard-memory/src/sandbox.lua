-- The globals that scripts see: those of Redis that ours use, and nothing that has a state or asks the machine.
--
-- Gets redis.call, redis.pcall and a function that tells a caught error's text.
-- Returns the table that a script has as its environment, and the one behind it, into which KEYS and ARGV are put.
local call, attempt, told = ...
local error, setmetatable, tostring, protected = error, setmetatable, tostring, pcall

local function refuse() error("Attempt to modify a readonly table", 2) end
local function readonly(table) return setmetatable({}, {__index = table, __newindex = refuse}) end
local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- As in Redis from 7 on, what is caught is an error's text and not a table.
local function outcome(ok, fault, ...)
  if ok then return true, fault, ... end
  return false, told(fault)
end

local globals = {
  assert = assert,
  error = error,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  pcall = function(...) return outcome(protected(...)) end,
  rawequal = rawequal,
  rawget = rawget,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  unpack = unpack,
  redis = readonly({call = call, pcall = attempt}),
  string = readonly(string),
  table = readonly(table),
  math = readonly(math),
}
math.random, math.randomseed = nil, nil
return readonly(setmetatable(globals, {__index = missing})), globals
