-- rest.lua - He et al., "REST: Retrieval-Based Speculative Decoding" (2024): drafts are looked up in a store of texts, a file of the
-- package: what follows the longest end of the text that the store has.
return cadenza.drafter {
  id = "org.example.rest", version = "1.0.0",
  params = { longest = { 6, 1, 64, "ids that may match", integer = true }, most = { 8, 1, 64, "tokens of a draft", integer = true } },
  begin = function(ctx) return { store = ctx:encode(cadenza.file("store.txt")) } end,
  propose = function(p, ids, room, ctx)
    local store, draft, best, at = ctx.memory.store, {}, 1, nil       -- one id alone says too little
    for i = 2, #store - 1 do
      local n = 0
      while n < p.longest and n < i and ids[#ids - n] and store[i - n] == ids[#ids - n] do n = n + 1 end
      if n > best then best, at = n, i end
    end
    for i = 1, at and math.min(p.most, room, #store - at) or 0 do draft[i] = store[at + i] end
    return draft
  end,
}
