-- my_drafter.lua - propose what followed the last token where it stood before.
return cadenza.drafter {
  id = "org.example.my-drafter", version = "0.1.0",
  summary = "Propose what followed the last token before",
  params = { most = { 4, 1, 64, "tokens of a draft", integer = true } },
  propose = function(p, ids, room)         -- a guess: the model judges it
    local draft = {}
    for i = #ids - 1, 1, -1 do
      if ids[i] == ids[#ids] then
        for k = i + 1, math.min(#ids, i + math.min(p.most, room)) do draft[#draft + 1] = ids[k] end
        break
      end
    end
    return draft                           -- an empty list: nothing is proposed
  end,
}
