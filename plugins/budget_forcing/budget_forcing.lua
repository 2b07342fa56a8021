-- budget_forcing.lua - reasoning that would end too early goes on, and one that takes too long is ended.
--
-- Muennighoff et al., "s1: Simple test-time scaling" (2025): where the model wants to end its thoughts before it has had so
-- many tokens, the end is taken back and a word such as "Wait" put in its place; after the most tokens the end is put there.
-- Tokens that cannot be a part of the end mark any more are committed, so that the text streams.

local function take(ctx, draws)
  local scores = ctx:process(ctx:forward())
  if draws then ctx:append(ctx:multinomial(ctx:softmax(scores))) else ctx:append((ctx:argmax(scores, 1))) end
end

-- Takes back the end mark, or else the token that ended the text.
local function take_back(ctx, p, closes)
  local left = closes and #ctx:text() - #p.close or 0
  repeat ctx:rewind(1) until not closes or #ctx:text() <= left or ctx:rewindable() == 0
end

-- Did the model end the text itself?
local function is_end(ctx)
  local ids = ctx:input_ids()
  for i = 1, #ctx.eos do if ids[#ids] == ctx.eos[i] then return true end end
  return false
end

local function new_tokens(ctx) return #ctx:input_ids() - ctx.prompt_len end

local function run(ctx)
  local p, draws = ctx.params, ctx.do_sample
  local again, close = ctx:encode(p.again), ctx:encode(p.close)
  local thinking, forced, ended = true, 0, 0
  while not ctx:done() do
    if thinking and p.most > 0 and new_tokens(ctx) >= p.most then
      ctx:insert(close, { shown = true, counts = true, stops = true, who = "budget" })
      thinking, ended = false, 1
    else
      take(ctx, draws)
      local closes = thinking and ctx:text_tail(#p.close) == p.close
      local stops = thinking and ctx:done() and is_end(ctx)
      if (closes or stops) and new_tokens(ctx) < p.least and forced < p.times then
        take_back(ctx, p, closes)
        ctx:insert(again, { shown = true, counts = true, stops = true, who = "budget" })
        forced = forced + 1
      elseif closes then
        thinking = false
      end
    end
    ctx:commit(math.max(0, new_tokens(ctx) - (thinking and #p.close or 0)))
  end
  ctx:result("forced", { forced }, "int64")
  ctx:result("ended", { ended }, "int64")
end

return cadenza.strategy {
  id = "budget_forcing", version = "1.0.0", one_row = true, rewinds = true,
  summary = "Lengthen or cut the model's thoughts to a budget of tokens",
  params = {
    close = { "</think>", "what ends the thoughts" },
    again = { "Wait", "what takes its place when they are too short" },
    least = { 0, 0, 1000000, "tokens that the thoughts have at least", integer = true },
    most  = { 0, 0, 1000000, "and at most; 0: any number", integer = true },
    times = { 4, 0, 1000, "how often an end is taken back", integer = true },
  },
  run = run,
}
