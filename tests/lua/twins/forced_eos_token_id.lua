-- forced_eos_token_id.lua - at max_length nothing but one of these.
return cadenza.processor {
  id = "forced_eos_token_id", version = "1.0.0",
  params = { forced_eos_token_id = { type = "integers", generation = true, min = 0,
                                     help = "the token, or tokens to choose from, at max_length" } },
  idle = function(p) return not p.forced_eos_token_id end,
  apply = function(p, ids, row, ctx)
    if #ids + 1 ~= ctx.max_length then return end
    row:fill(-math.huge)
    row:set(p.forced_eos_token_id, 0)
  end,
}
