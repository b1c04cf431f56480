-- The globals of scripts, as Redis has them. Runs once for each interpreter.
--
-- `native` has the functions that are written in Rust. Their errors are userdata. A script that
-- catches one sees what Redis would have raised. Errors that end a script cannot be caught.
-- Scripts reach every table here through an empty one that refuses changes.

local native, pattern_bytes_max, sorts_max = ...
local _G, error, type, next, rawget, select = _G, error, type, next, rawget, select
local tostring, tonumber, unpack, math = tostring, tonumber, unpack, math
local pcall, xpcall, setfenv, string = pcall, xpcall, setfenv, string
local getmetatable, setmetatable, rawset = getmetatable, setmetatable, rawset
local loadstring = loadstring
local byte, find, sub, concat = string.byte, string.find, string.sub, table.concat
local create, resume = coroutine.create, coroutine.resume

-- Tables that refuse changes.

local protected = {}

local function refuse()
    error("Attempt to modify a readonly table", 2)
end

local locked = setmetatable({}, { __newindex = refuse, __metatable = false })
protected[locked] = true

local function readonly(real)
    local shown = setmetatable({}, { __index = real, __newindex = refuse, __metatable = locked })
    protected[shown] = true
    return shown
end

local function library(functions, more)
    for name, value in next, more or {} do
        functions[name] = value
    end
    return readonly(functions)
end

-- Catching errors.

local seen = native.seen

local function caught(ok, e, ...)
    if ok then
        return ok, e, ...
    end
    if type(e) == "userdata" then
        local value = seen(e)
        if value == nil then
            error(e, 0)
        end
        return false, value
    end
    return false, e
end

local function message_of(ok, e, ...)
    if ok then
        return ok, e, ...
    end
    if type(e) == "table" then
        local message = rawget(e, "err")
        if type(message) == "string" or type(message) == "number" then
            return false, message
        end
    end
    return false, e
end

local function script_pcall(...)
    return message_of(caught(pcall(...)))
end

local function script_xpcall(f, handler)
    return caught(xpcall(f, function(e)
        if type(e) == "userdata" then
            local value = seen(e)
            if value == nil then
                return e
            end
            e = value
        end
        return handler(e)
    end))
end

local function script_resume(...)
    return caught(resume(...))
end

-- Strings. The C functions recurse once for each item of a pattern.

local function check_pattern(pattern)
    if type(pattern) == "string" and #pattern > pattern_bytes_max then
        error("pattern too complex", 3)
    end
end

local function bounded(f)
    return function(s, pattern, ...)
        check_pattern(pattern)
        return f(s, pattern, ...)
    end
end

local function script_find(s, pattern, init, is_plain)
    if not is_plain then
        check_pattern(pattern)
    end
    return find(s, pattern, init, is_plain)
end

local function replacement(by, whole, first, ...)
    local value
    if type(by) == "table" then
        value = by[first == nil and whole or first]
    elseif first == nil then
        value = by(whole)
    else
        value = by(first, ...)
    end
    if not value then
        return whole
    end
    if type(value) ~= "string" and type(value) ~= "number" then
        error("invalid replacement value (a " .. type(value) .. ")", 0)
    end
    return value
end

-- string.gsub with a replacement that may run Lua code. The C function would hold 8 KiB of its
-- stack meanwhile.
local function replace_each(s, pattern, by, most)
    local parts, count, at = {}, 0, 1
    local anchored = byte(pattern, 1) == 94
    local function note(start, stop, ...)
        if not start then
            return false
        end
        parts[#parts + 1] = sub(s, at, start - 1)
        parts[#parts + 1] = replacement(by, sub(s, start, stop), ...)
        if stop < start then
            parts[#parts + 1] = sub(s, start, start)
            at = start + 1
        else
            at = stop + 1
        end
        count = count + 1
        return true
    end
    while count < most and at <= #s + 1 do
        if not note(find(s, pattern, at)) or anchored then
            break
        end
    end
    parts[#parts + 1] = sub(s, at)
    return concat(parts), count
end

local gsub = string.gsub

local function script_gsub(s, pattern, by, most)
    check_pattern(pattern)
    local runs = type(by) == "function" or type(by) == "table" and getmetatable(by)
    if not runs then
        return gsub(s, pattern, by, most)
    end
    -- Checks the arguments as the C function does.
    gsub(s, pattern, by, 0)
    return replace_each(tostring(s), tostring(pattern), by, tonumber(most) or math.huge)
end

local strings = {}
for name, f in next, string do
    strings[name] = f
end
strings.find = script_find
strings.match = bounded(string.match)
strings.gmatch = bounded(string.gmatch)
strings.gsub = script_gsub

-- Tables. A sort within a comparison of another takes stack too.

local sort, sorts = table.sort, 0

local function script_sort(...)
    if sorts >= sorts_max then
        error("too many nested calls of table.sort", 2)
    end
    sorts = sorts + 1
    local ok, e = pcall(sort, ...)
    sorts = sorts - 1
    if not ok then
        error(e, 0)
    end
end

local tables = {}
for name, f in next, table do
    tables[name] = f
end
tables.sort = script_sort

-- Mathematics.

local maths = {}
for name, f in next, math do
    maths[name] = f
end
maths.random = native.random
maths.randomseed = native.randomseed

-- Code from strings. Bytecode is refused, because Lua does not check it.

local globals = {}
local environment = readonly(globals)

local function script_loadstring(text, ...)
    if type(text) == "string" and byte(text, 1) == 27 then
        return nil, "bytecode cannot be loaded"
    end
    local f, e = loadstring(text, ...)
    if f then
        setfenv(f, environment)
    end
    return f, e
end

local function script_load(reader, name)
    local parts = {}
    while true do
        local part = reader()
        if part == nil or part == "" then
            break
        end
        if type(part) ~= "string" then
            error("reader function must return a string", 2)
        end
        parts[#parts + 1] = part
    end
    return script_loadstring(concat(parts), name or "=(load)")
end

-- The interface to the server.

local failure = native.failure

local redis = {
    call = native.call,
    pcall = native.pcall,
    error_reply = function(...)
        if select("#", ...) ~= 1 or type((...)) ~= "string" then
            return { err = "ERR wrong number or type of arguments" }
        end
        return { err = failure((...)) }
    end,
    status_reply = function(...)
        if select("#", ...) ~= 1 or type((...)) ~= "string" then
            return { err = "ERR wrong number or type of arguments" }
        end
        return { ok = (...) }
    end,
    replicate_commands = function()
        return true
    end,
    breakpoint = function()
        return false
    end,
    debug = function() end,
    LOG_DEBUG = 0,
    LOG_VERBOSE = 1,
    LOG_NOTICE = 2,
    LOG_WARNING = 3,
    REPL_NONE = 0,
    REPL_AOF = 1,
    REPL_SLAVE = 2,
    REPL_REPLICA = 2,
    REPL_ALL = 3,
    REDIS_VERSION = native.version,
    REDIS_VERSION_NUM = native.version_number,
}

for name, f in next, native.redis do
    redis[name] = f
end

-- The globals.

local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

for _, name in next, {
    "tostring", "next", "assert", "tonumber", "rawequal", "type", "select", "unpack", "gcinfo",
    "rawget", "pairs", "ipairs", "error", "_VERSION", "getmetatable",
} do
    globals[name] = _G[name]
end

local collectgarbage = collectgarbage
globals.collectgarbage = function(what, ...)
    -- The other settings would outlive the script.
    if what == nil or what == "collect" or what == "count" or what == "step" then
        return collectgarbage(what, ...)
    end
    return 0
end
globals.rawset = native.guard("rawset", rawset, protected)
globals.setmetatable = native.guard("setmetatable", setmetatable, protected)
globals.pcall = script_pcall
globals.xpcall = script_xpcall
globals.load = script_load
globals.loadstring = script_loadstring
globals.coroutine = readonly({
    create = create,
    resume = script_resume,
    running = coroutine.running,
    status = coroutine.status,
    wrap = coroutine.wrap,
    yield = coroutine.yield,
})
globals.string = readonly(strings)
globals.table = readonly(tables)
globals.math = readonly(maths)
globals.os = readonly({ clock = native.clock })
globals.redis = readonly(redis)
globals.bit = library(native.bit)
globals.struct = library(native.struct)
globals.cjson = library(native.cjson, native.cjson_values)
globals.cmsgpack = library(native.cmsgpack, native.cmsgpack_values)
globals._G = environment
setmetatable(globals, { __index = missing })

local of_strings = getmetatable("")
of_strings.__index = globals.string
of_strings.__metatable = locked

-- Adds where an error was raised, for the reply.
local where = native.where
local function located(e)
    if type(e) == "userdata" then
        local value = seen(e)
        if value == nil then
            return e
        end
        e = value
    end
    if type(e) ~= "table" then
        e = { err = "ERR " .. tostring(e) }
    end
    local source, line = where()
    if source then
        rawset(e, "source", source)
        rawset(e, "line", line)
    end
    return e
end

local function run(f)
    sorts = 0
    return xpcall(f, located)
end

return environment, globals, run
