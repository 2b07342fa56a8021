-- sequence_bias.lua - add a bias to the token that would complete a given sequence. Of equal sequences the last one's bias
-- counts, at the first one's place.
return cadenza.processor {
  id = "sequence_bias", version = "1.0.0",
  params = { sequence_bias = { type = "weighted", generation = true,
                               help = "[[ids, bias], ...]: added to the last token of ids after the others" } },
  create = function(p)
    local list = p.sequence_bias
    if not list then return end
    if #list == 0 then error("sequence_bias is empty; expected a sequence with its bias", 0) end
    for _, entry in ipairs(list) do
      if math.type(entry[2]) == "integer" then error("a bias must be written with a fraction", 0) end
    end
  end,
  idle = function(p) return not p.sequence_bias end,
  begin = function(ctx)
    local first, list = {}, {}
    for _, entry in ipairs(ctx.params.sequence_bias) do
      local key = table.concat(entry[1], " ")
      if first[key] then first[key][2] = entry[2]
      else
        first[key] = { entry[1], entry[2] }
        list[#list + 1] = first[key]
      end
    end
    return { list = list }
  end,
  apply = function(p, ids, row, ctx) row:sequence_bias(ctx.state.list, ids) end,
}
