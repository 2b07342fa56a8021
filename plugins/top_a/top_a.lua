-- top_a.lua - drop tokens less likely than `top_a` times the square of the best one's probability.
--
-- BlinkDL, RWKV-LM (2022). In scores: with z the logarithm of the sum of exponentials, p = exp(x - z), so
-- p < a * best^2 is x < log(a) + 2 * x_best - z. No probability is worked out.
return cadenza.processor {
  id = "top_a", version = "1.0.0", needs_ids = false, keeps_argmax = true, keeps_top = true, sampling_only = true,
  summary = "Drop tokens far less likely than the square of the best",
  params = {
    top_a = { 0.2, 0, 1, "factor of the squared probability; 0: off" },
  },
  idle = function(p) return p.top_a == 0 end,
  apply = function(p, _, row)
    row:mask_below(math.log(p.top_a) + 2 * row:max() - row:logsumexp())
  end,
}
