-- pairs.lua - proposes what last followed each pair of tokens, and where nothing did, the last token again: often wrong.
return cadenza.drafter {
  id = "test.pairs", version = "1.0.0",
  propose = function(_, ids, room)
    local after, draft = {}, {}
    for i = 3, #ids do after[ids[i - 2] .. "," .. ids[i - 1]] = ids[i] end
    local a, b = ids[#ids - 1], ids[#ids]
    while #draft < math.min(4, room) do
      draft[#draft + 1] = after[a .. "," .. b] or b
      a, b = b, draft[#draft]
    end
    return draft
  end,
}
