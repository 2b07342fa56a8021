-- proxy_tuning.lua - a large model does what a small one was tuned to do.
--
-- Liu et al., "Tuning Language Models by Proxy" (2024): to the model's logits come those of a small tuned model, the expert, less
-- those of the same model before tuning, the anti-expert. The form is that of Liu et al., "DExperts" (2021), where the two are
-- tuned to opposites: logits + alpha * (expert - anti-expert).

-- A sequence of another model that reads what the row reads, without its pads.
local function beside(ctx, name)
  local n = ctx:vocab_size(name)
  if not n then error("needs a model \"" .. name .. "\": --with " .. name .. "=FOLDER") end
  if n ~= ctx.n_vocab then
    error("the model \"" .. name .. "\" has " .. n .. " tokens, the request's has " .. ctx.n_vocab .. ": they must be the same")
  end
  return ctx:seq_new(name):hide_as(1):append(ctx:input_ids(1))
end

local function run(ctx)
  local expert, other = beside(ctx, "expert"), beside(ctx, "antiexpert")
  local shift = ctx:scratch_scores(1):row(1)
  while not ctx:done() do
    shift:fill(ctx:seq_forward({ expert }, "last"):row(1))
    shift:sub(ctx:seq_forward({ other }, "last"):row(1))
    local scores = ctx:forward()
    ctx:record("logits", scores)
    scores:row(1):axpy(ctx.params.alpha, shift)
    ctx:process(scores)
    ctx:record("scores", scores)
    local token = ctx.do_sample and ctx:multinomial(ctx:softmax(scores))[1] or ctx:argmax(scores, 1)
    ctx:append(token)
    expert:append({ token })
    other:append({ token })
  end
end

return cadenza.strategy {
  id = "proxy_tuning", version = "1.0.0", one_row = true,
  summary = "Shift a model's logits by what tuning changed in a small one",
  params = { alpha = { 1, -100, 100, "how far; 0: not at all" } },
  run = run,
}
