-- top_k.lua - keep the k best scores, and all that equal the k-th.
return cadenza.processor {
  id = "top_k", version = "1.0.0", needs_ids = false, keeps_argmax = true, keeps_top = true, sampling_only = true,
  params = { top_k = { type = "integer", optional = true, generation = true, min = 0, help = "scores to keep; 0: all" },
             min_tokens_to_keep = { 1, 1, help = "tokens left whatever top_k says", integer = true } },
  idle = function(p) return not p.top_k or p.top_k == 0 end,
  apply = function(p, ids, row) row:keep_topk(p.top_k, p.min_tokens_to_keep) end,
}
