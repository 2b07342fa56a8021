-- patterns.lua - the same random patterns for the stock string library and for ours; out[i] becomes a number made of
-- everything the functions returned or raised in case i. Returns a function of the first out index, the number of cases and out.
local pieces = { "a", "b", "%a", "%d", "%s", "%w", ".", "[ab]", "[^a]", "[%d_]", "%x", "%p", "%u", "%l", "[a-c]", "x",
                 "(", ")", "()", "%b()", "%f[%w]", "%1", "$", "^", "%%", "-", "*", "+", "?", "*", "+", "?", "-", "]", "[", "%" }
local letters = { "a", "b", "c", "x", "A", " ", "1", "_", "(", ")", "%", "\0", "é", "-" }

local seed = 1
local function random(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % n + 1
end

local function pick(list, most)
  local parts = {}
  for i = 1, random(most) do parts[i] = list[random(#list)] end
  return table.concat(parts)
end

local function digest(h, ...)
  for i = 1, select("#", ...) do
    local s = tostring((select(i, ...))) .. ";"
    for k = 1, #s do h = (h * 31 + s:byte(k)) % 8388593 end
  end
  return h
end

local function collect(s, p)
  local h, n = 7, 0
  for a, b in s:gmatch(p) do
    h, n = digest(h, a, b), n + 1
    if n > 20 then break end
  end
  return h
end

return function(n, out)
  for i = 0, n - 1 do
    local s, p, r = pick(letters, 12), pick(pieces, 6), pick({ "x", "%0", "%1", "%%", "%" }, 2)
    local h = digest(1, pcall(string.find, s, p, random(4) - 2))
    h = digest(h, pcall(string.match, s, p))
    h = digest(h, pcall(string.gsub, s, p, r, random(5)))
    h = digest(h, pcall(string.gsub, s, p, { a = "1", b = false, [1] = "one" }))
    h = digest(h, pcall(string.gsub, s, p, function(a) return a == "a" and "[" or nil end))
    out[i] = digest(h, pcall(collect, s, p))
  end
end
