-- forced_bos_token_id.lua - after a lone start token nothing but this one.
return cadenza.processor {
  id = "forced_bos_token_id", version = "1.0.0",
  params = { forced_bos_token_id = { type = "integer", optional = true, generation = true, min = 0,
                                     help = "the token that follows a lone start token" } },
  idle = function(p) return not p.forced_bos_token_id end,
  apply = function(p, ids, row)
    if #ids ~= 1 then return end
    row:fill(-math.huge)
    row[p.forced_bos_token_id] = 0
  end,
}
