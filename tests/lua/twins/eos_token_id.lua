-- eos_token_id.lua - stop at an end-of-sequence token.
return cadenza.criterion {
  id = "eos_token_id", version = "1.0.0", has_eos = true,
  params = { eos_token_id = { type = "integers", min = -2147483648, max = 2147483647,
                              help = "tokens that end a row; unset: the request's" } },
  idle = function(p, ctx) return not p.eos_token_id and #ctx.eos == 0 end,
  test = function(p, ids, ctx)
    local newest = ids[#ids]
    for _, id in ipairs(p.eos_token_id or ctx.eos) do
      if id == newest then return "eos" end
    end
  end,
}
