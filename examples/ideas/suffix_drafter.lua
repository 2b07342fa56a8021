-- suffix_drafter.lua - a suffix automaton of all ids so far finds the longest end of the text that came before, and proposes
-- what came behind it. Each new id costs a constant amount of work.
local function extend(a, id, at)
  local new = { len = a.last.len + 1, to = {}, ends = at }
  local s = a.last
  while s and not s.to[id] do s.to[id] = new s = s.link end
  if not s then new.link = a.root
  elseif s.to[id].len == s.len + 1 then new.link = s.to[id]
  else
    local q, copy = s.to[id], { len = s.len + 1, to = {} }
    for k, v in pairs(q.to) do copy.to[k] = v end
    copy.link, copy.ends = q.link, q.ends
    while s and s.to[id] == q do s.to[id] = copy s = s.link end
    q.link, new.link = copy, copy
  end
  a.last = new
end

local rows = {}                                     -- locals of the file live as long as the request

return cadenza.drafter {
  id = "org.example.suffix-drafter", version = "1.0.0",
  params = { least = { 2, 1, 64, "ids that must match", integer = true }, most = { 6, 1, 64, "tokens of a draft", integer = true } },
  propose = function(p, ids, room, ctx)
    local root = { len = 0, to = {} }
    local a = rows[ctx.row] or { root = root, last = root, read = 0, match = root, len = 0 }
    rows[ctx.row] = a
    if #ids < a.read then error("ids were taken back; the automaton cannot follow") end
    for i = a.read + 1, #ids do                      -- first what came before is matched, then it belongs to it
      local id = ids[i]
      while a.match ~= a.root and not a.match.to[id] do a.match = a.match.link a.len = a.match.len end
      if a.match.to[id] then a.match, a.len = a.match.to[id], a.len + 1 end
      extend(a, id, i)
    end
    a.read = #ids
    local draft = {}
    if a.len < p.least then return draft end
    for i = a.match.ends + 1, math.min(a.match.ends + math.min(p.most, room), #ids) do draft[#draft + 1] = ids[i] end
    return draft
  end,
}
