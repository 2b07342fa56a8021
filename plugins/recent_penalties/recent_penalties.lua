-- recent_penalties.lua - llama.cpp's penalties: a window of the newest tokens, the prompt's among them. A positive score is
-- divided by `repetition`, others multiplied; then `frequency` for each use and `presence` once are taken from it.
return cadenza.processor {
  id = "recent_penalties", version = "1.0.0", history_sparse = true,
  summary = "Repetition, frequency and presence penalties over the newest tokens",
  params = {
    last_n     = { 64, -1, 1e9, "newest tokens that count; 0: none, -1: all", integer = true },
    repetition = { 1.0, 0, 1e6, "scores of tokens in the window are divided by it, negative ones multiplied", above_min = true },
    frequency  = { 0.0, -1e6, 1e6, "subtracted from the score for each use" },
    presence   = { 0.0, -1e6, 1e6, "subtracted from the score once" },
  },
  idle = function(p)
    return p.last_n == 0 or (p.repetition == 1 and p.frequency == 0 and p.presence == 0)
  end,
  apply = function(p, ids, row)
    local window = p.last_n < 0 and ids or ids:sub(math.max(1, #ids - p.last_n + 1))
    if #window == 0 then return end
    if p.repetition ~= 1 then row:penalize(window, "repetition", p.repetition) end
    if p.frequency ~= 0 then row:penalize(window, "frequency", p.frequency) end
    if p.presence ~= 0 then row:penalize(window, "presence", p.presence) end
  end,
}
