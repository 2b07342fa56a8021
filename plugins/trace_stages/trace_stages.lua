-- trace_stages.lua - an observer that writes a line for every processor that changed a row: how many tokens it masked,
-- what the distribution looks like, and which token is best now.
local function left(row) return row:count_above(-math.huge) end

local function best(row, ctx)
  local id = row:argmax()
  return ctx:token_text(id) or ("token " .. id)
end

return cadenza.observer {
  id = "org.cadenza.trace-stages", version = "1.0.0",
  summary = "A line for every processor that changed a row: tokens left, and the best",
  stage = function(p, by, before, after, ctx)
    local was, now = left(before), left(after)
    local old, new = math.max(0, before:entropy()), math.max(0, after:entropy()) -- rounding may leave -0.0
    if was == now and math.abs(old - new) < 5e-4 and best(before, ctx) == best(after, ctx) then return end
    ctx:log(("row %d +%d %s: %d left of %d, entropy %.2f (was %.2f), best '%s'"):format(
      ctx.row - 1, #ctx.tokens - ctx.prompt_len + 1, by, now, was, new, old, best(after, ctx)))
  end,
}
