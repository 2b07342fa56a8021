-- drafts.lua - proposes what the row ends in, and fails in its round `at`.
local rounds = 0
return cadenza.drafter {
  id = "org.example.drafts", version = "1.0.0",
  params = { at = { 100000, 0, 100000, "the round in which it fails", integer = true } },
  propose = function(p, ids, room)
    rounds = rounds + 1
    if rounds > p.at then error("failed in round " .. rounds) end
    local n = math.min(room, #ids, 3)
    return n > 0 and ids:sub(-n) or nil
  end,
}
