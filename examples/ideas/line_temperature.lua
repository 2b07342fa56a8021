-- line_temperature.lua - Zhu et al., "Hot or Cold? Adaptive Temperature Sampling for Code Generation with Large Language Models"
-- (2024): one temperature for the tokens that begin a line, where a program may go on in many ways, another for all others.
return cadenza.processor {
  id = "org.example.line-temperature", version = "1.0.0", sampling_only = true,
  params = {
    hot = { 1, 0, 100, "for what begins a line", above_min = true }, cold = { 0.2, 0, 100, "for the rest", above_min = true },
    line = { "\n%s*$", "a Lua pattern: behind it a line begins" },
  },
  apply = function(p, ids, row, ctx)
    local begins = #ids == ctx.prompt_len or ctx:text_tail(64):find(p.line)
    row:temperature(begins and p.hot or p.cold)
  end,
}
