-- copying.lua - makes any model write its prompt again, each period-th token changed: text as edits of a file are, at the
-- model's own cost. For ./dev bench speculation.
return cadenza.processor {
  id = "org.cadenza.bench-copying", version = "1.0.0", needs_ids = true,
  params = { period = { 32, 2, 65536, "one token of so many is another one", integer = true } },
  apply = function(p, ids, row, ctx)
    local at = #ids - ctx.prompt_len + 1
    local token = ids[(at - 1) % ctx.prompt_len + 1]
    if at % p.period == 0 then token = token + 1 end
    row[token] = 1e9
  end,
}
