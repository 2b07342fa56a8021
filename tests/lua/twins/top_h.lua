-- top_h.lua - keep the likeliest tokens up to a share of the row's entropy: of the 100 best those at the head whose terms
-- -p log p add up to at most h times the entropy of the 100.
return cadenza.processor {
  id = "top_h", version = "1.0.0", needs_ids = false, keeps_top = true, sampling_only = true,
  params = { top_h = { type = "number", optional = true, generation = true, min = 0, max = 1, above_min = true,
                       help = "share of the entropy to keep" } },
  idle = function(p) return not p.top_h end,
  apply = function(p, ids, row)
    local best, values = row:topk(100)
    if values[1] - values[1] ~= 0 then error("the best score of a row is " .. values[1] .. ", expected a number") end
    local limit = vec.from { values:entropy() }:mul(p.top_h)[0]      -- in float32, as the sums are
    local prob = values:copy():sub(values:logsumexp()):softmax()
    local terms = prob:copy():log()
    terms:mul(prob:neg()):cumsum()
    local kept = 1
    while kept < #best and terms[kept + 1] <= limit do kept = kept + 1 end
    row:mask_except(best:sub(1, kept))
  end,
}
