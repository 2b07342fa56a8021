-- conditional_steering.lua - Lee et al., "Programming Refusal with Conditional Activation Steering" (2024): a direction is added to
-- the states only if the prompt's own state lies along another, the condition; here both are seen from between two prompts.
return cadenza.strategy {
  id = "org.example.conditional-steering", version = "1.0.0", one_row = true, greedy = true,
  params = {
    about  = { "walk (verb):", "a prompt that is to be steered" }, other = { "guitar (noun):", "one that is not" },
    toward = { "a small dog", "the text to go towards" },         away  = { "a large river", "and away from" },
    layer  = { 3, 1, 1000, "where both are looked at", integer = true },
    above  = { 0.3, -1, 1, "cosine with the condition from which it is steered" }, strength = { 1, -100, 100, "how far" },
  },
  run = function(ctx)
    local p = ctx.params
    ctx:keep_hidden("last", { p.layer })
    local function state(ids)
      ctx:seq_forward({ ctx:seq_new():append(ids) }, "last")
      return ctx:hidden_states()[1][1]
    end
    local function between(a, b) return state(ctx:encode(a)):sub(state(ctx:encode(b))) end
    local condition, prompt = between(p.about, p.other), state(ctx:input_ids())
    local middle = state(ctx:encode(p.about)):add(state(ctx:encode(p.other))):mul(0.5)
    prompt:sub(middle)
    local cosine = prompt:dot(condition) / (prompt:norm() * condition:norm())
    if cosine > p.above then
      ctx:seq_of_row():steer { { layer = p.layer - 1, vector = between(p.toward, p.away), scale = p.strength } }
    end
    ctx:keep_hidden("last", {})
    while not ctx:done() do ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))) end
    ctx:result("cosine", { cosine }, "float32")
  end,
}
