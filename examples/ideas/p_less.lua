-- p_less.lua - Tan, Wu and Howard, "p-less Sampling: A Robust Hyperparameter-Free Approach for LLM Decoding" (2025): a token stays
-- that is at least as likely as two draws are to be equal, which is the sum of all squared probabilities.
return cadenza.processor {
  id = "org.example.p-less", version = "1.0.0", sampling_only = true,
  apply = function(_, _, row)
    local probs = row:copy():softmax()
    row:mask_below(row:logsumexp() + math.log(probs:dot(probs)))
  end,
}
