-- think_answer.lua - two phases, thinking and answering, each with a budget and a temperature of its own.
--
-- Budget forcing of Muennighoff et al., "s1: Simple test-time scaling" (2025): a model that thinks for too long is made to
-- write the text that closes its thoughts, one that thinks too little may not write it yet. Phases are told by the text, so
-- marks of several tokens will do. Which phase, how many tokens in it, and how much of the mark was forced is the row's state.

local function begin(ctx)
  local p = ctx.params
  local close = ctx:encode(p.close)
  if #close == 0 then error("close: the text has no tokens") end
  return { phase = p.thinking and "think" or "before", n = 0, forced = 0, tail = "", close = close }
end

local function enter(state, phase) state.phase, state.n, state.forced, state.tail = phase, 0, 0, "" end

local function over(budget, n) return budget > 0 and n >= budget end

local function accept(p, state, token, ctx)
  state.tail = (state.tail .. (ctx:token_text(token) or "")):sub(-math.max(#p.open, #p.close) - 64)
  local forcing = state.phase == "think" and over(p.think_budget, state.n)
  state.n = state.n + 1
  if state.phase == "before" and state.tail:find(p.open, 1, true) then
    enter(state, "think")
  elseif state.phase == "think" then
    if forcing and token == state.close[state.forced + 1] then state.forced = state.forced + 1 end
    if state.tail:find(p.close, 1, true) or state.forced == #state.close then enter(state, "answer") end
  end
end

-- Would this token end the thoughts? The mark's last one does, where the others stand before it.
local function at_close(ids, close)
  local from = #ids - #close + 1
  for k = 1, #close - 1 do
    if ids[from + k] ~= close[k] then return false end
  end
  return from >= 0
end

local function think(p, ids, row, ctx)
  local state = ctx.state
  if over(p.think_budget, state.n) then
    row:mask_except(state.close[state.forced + 1])
    return
  end
  if state.n < p.think_least then
    row:mask(ctx.eos)
    if at_close(ids, state.close) then row:mask(state.close[#state.close]) end
  end
  if p.think_temperature then row:div(p.think_temperature) end
end

local function answer(p, row, ctx)
  if over(p.answer_budget, ctx.state.n) and #ctx.eos > 0 then
    row:mask_except(ctx.eos)
  elseif p.answer_temperature then
    row:div(p.answer_temperature)
  end
end

return cadenza.processor {
  id = "think_answer", version = "1.0.0",
  summary = "Budgets and temperatures for thinking and for answering",
  params = {
    open   = { "<think>", "text that begins the thoughts" },
    close  = { "</think>", "text that ends them" },
    thinking = { false, "whether the prompt has begun the thoughts" },
    think_budget  = { 0, 0, 1e9, "tokens of thought, then close is written; 0: no limit", integer = true },
    think_least   = { 0, 0, 1e9, "tokens of thought before close or the end may come", integer = true },
    answer_budget = { 0, 0, 1e9, "tokens of answer, then the sequence ends; 0: no limit", integer = true },
    think_temperature  = { type = "number", optional = true, min = 0, max = 1e6, above_min = true,
                           help = "scores are divided by it while thinking" },
    answer_temperature = { type = "number", optional = true, min = 0, max = 1e6, above_min = true,
                           help = "scores are divided by it while answering" },
  },
  create = function(p)
    if p.open == "" or p.close == "" then error("open and close must not be empty") end
    if p.think_budget > 0 and p.think_least > p.think_budget then
      error("think_least = " .. p.think_least .. " is above think_budget = " .. p.think_budget)
    end
  end,
  begin = begin,
  accept = accept,
  apply = function(p, ids, row, ctx)
    if ctx.state.phase == "think" then
      think(p, ids, row, ctx)
    elseif ctx.state.phase == "answer" then
      answer(p, row, ctx)
    end
  end,
}
