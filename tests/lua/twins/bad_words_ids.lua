-- bad_words_ids.lua - never complete one of these sequences.
return cadenza.processor {
  id = "bad_words_ids", version = "1.0.0",
  params = { bad_words_ids = { type = "integer_lists", generation = true, min = 0, help = "token sequences that may not appear" } },
  create = function(p)
    if p.bad_words_ids and #p.bad_words_ids == 0 then error("bad_words_ids is empty; expected a list of token sequences", 0) end
  end,
  idle = function(p) return not p.bad_words_ids end,
  begin = function(ctx)
    local list, ends = {}, {}
    for _, id in ipairs(ctx.eos) do ends[id] = true end
    for _, word in ipairs(ctx.params.bad_words_ids) do
      if #word > 1 or not ends[word[1]] then list[#list + 1] = { word, -math.huge } end
    end
    return { list = list }
  end,
  apply = function(p, ids, row, ctx)
    if #ctx.state.list > 0 then row:sequence_bias(ctx.state.list, ids) end
  end,
}
