-- topk_csv.lua - a line for each token: its place, itself, and the likeliest ones with their probabilities. --observe FILE.
local n = {}
return cadenza.observer {
  id = "org.example.topk-csv", version = "1.0.0",
  params = { k = { 3, 1, 100, "likeliest tokens", integer = true } },
  scores = function(p, before, after, ctx)
    local ids, probs = before:copy():softmax():topk(p.k)
    local cells = {}
    for i, id in ipairs(ids) do cells[i] = string.format("%d,%.6f", id, probs[i]) end
    n[ctx.row] = table.concat(cells, ",")
  end,
  token = function(p, token, ctx) ctx:write(string.format("%d,%d,%s", #ctx.tokens - ctx.prompt_len, token, n[ctx.row])) end,
}
