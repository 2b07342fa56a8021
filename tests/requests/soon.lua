-- soon.lua - ends every row after `after` new tokens, or fails there.
return cadenza.criterion {
  id = "org.example.soon", version = "1.0.0",
  params = { after = { 6, 1, 1000, "new tokens", integer = true }, fails = { false, "fail, do not end" } },
  test = function(p, ids, ctx)
    if #ids - ctx.prompt_len < p.after then return false end
    if p.fails then error("failed to stop") end
    return "soon"
  end,
}
