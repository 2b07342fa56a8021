---@meta
-- cadenza.lua - type declarations of Cadenza's Lua interface, for editors (LuaCATS). It is never run: add this folder to your
-- editor's Lua language server. Read docs/lua.md first.
--
-- Counting. Lists count from 1, as everywhere in Lua: rows, ids of a row, values of topk. A score row and a vector made by
-- vec.new are indexed by token id, which counts from 0 as in the tokenizer.

---A list of token ids: a Lua table, what a row gives, or one id.
---@alias cadenza.IdList integer|integer[]|cadenza.Ids

---An entry of a params table. Positions: default, lowest, highest, help; or help right after a default that is no number.
---@class cadenza.Param
---@field [1] any? default
---@field [2] any? lowest, or help
---@field [3] any? highest, or help
---@field [4] string? help
---@field default any
---@field min number?
---@field max number?
---@field help string? one line
---@field type "boolean"|"integer"|"number"|"string"|"word"|"boolean_or_word"|"integers"|"numbers"|"strings"|"integer_lists"|"weighted"|"integer_and_number"|"word_or_integers"|"integer_choices"|nil needed where the default does not show the type
---@field integer boolean? a number without fraction
---@field optional boolean? may be unset: then it is nil
---@field words string[]? the words of a "word" or "boolean_or_word"
---@field generation boolean? when not set in the plugin's section, the value of the generation parameter of the same name
---@field strict boolean? JSON must write it with a fraction
---@field above_min boolean? the lowest value itself is out of range
---@field below_max boolean? the highest value itself is out of range

---Fields that a plugin of any kind may have.
---@class cadenza.Plugin
---@field id string? reverse domain, a-z 0-9 . _ -; without one, "lua." and the file's name
---@field version string?
---@field summary string? one line
---@field params table<string, cadenza.Param>?
---@field create fun(p: table)? refuses parameters that ranges cannot express, by error()
---@field needs_clock boolean? ctx.elapsed_s may be read: the plugin's result depends on the time

---Further fields of processors and criteria.
---@class cadenza.RowPlugin: cadenza.Plugin
---@field needs_ids boolean? default true; false: ids is nil
---@field idle (fun(p: table, ctx: cadenza.Context): boolean)? true: changes nothing for this request
---@field begin (fun(ctx: cadenza.Context): table?)? returns the state that every row begins with
---@field accept fun(p: table, state: table, token: integer, ctx: cadenza.Context)? the token became part of the row; only this function writes state
---@field state_version integer? a number of your own for the meaning of the state: when a new version of the file has the same number, running requests keep their states

---A second sequence beside a row, on which the model runs for a processor: prefix, then the row's ids from index `from` on
---(counted from 0; default: the ids after the prompt).
---@class cadenza.Companion
---@field prefix cadenza.IdList?
---@field mask integer[]? 0 where the prefix is hidden from the model
---@field from integer?
---@field stays boolean? keeps its tokens when rows are reordered, as the reference does with beams

---An edit of hidden states: docs/steering.md.
---@class cadenza.Edit
---@field layer integer from 0
---@field place ("block"|"attention"|"mlp"|"embedding")? block, if nothing is said
---@field op ("add"|"replace"|"scale"|"project_out"|"call")? add, if nothing is said; call: on_hidden says what
---@field vector cadenza.Vec? as wide as a hidden state; needed but for scale and call
---@field scale number? 1, if nothing is said
---@field from integer? the first token that is edited, counted from 1 among those that the model sees
---@field to integer? the last one

---@class cadenza.SteeredModel
---@field n_layers integer
---@field width integer of a hidden state
---@field prompt_len integer tokens of the row's prompt that the model sees
---@field prompt integer which of the request's prompts, from 1

---Hidden states of one sequence, for on_hidden: h[i] is the i-th position, a vector to be changed (h[i]:add(v), h[i] = v). #h are
---as many as the pass reads at once. They are of no use after the call.
---@class cadenza.Hidden
---@field [integer] cadenza.Vec
---@field from integer the first position, counted from 1 among the tokens that the model sees
---@field to integer the last one
---@field width integer
---@field place "block"|"attention"|"mlp"|"embedding"
---@field scale number of the edit
---@field vector cadenza.Vec? of the edit, to be read

---@class cadenza.ProcessorTable: cadenza.RowPlugin
---@field apply (fun(p: table, ids: cadenza.Ids, row: cadenza.Vec, ctx: cadenza.Context))? edits the row; with batched, ids is a list and row has all rows. Needed but beside steer
---@field steer (fun(p: table, row: integer, ctx: cadenza.Context, model: cadenza.SteeredModel): cadenza.Edit[]?)? edits of the row's hidden states, before its first pass
---@field on_hidden (fun(p: table, row: integer, layer: integer, h: cadenza.Hidden, ctx: cadenza.Context))? what edits with op = "call" do, in the middle of passes; a function of each position alone
---@field batched boolean? one call for all rows
---@field companion (fun(p: table, row: integer, ctx: cadenza.Context): cadenza.Companion?)? the model runs on this sequence beside the row
---@field constraint (fun(p: table, ids: cadenza.Ids, ctx: cadenza.Context): cadenza.Grammar?, integer?)? which constraint it keeps the row in, and the row's state in it (0: over): for drafters, which ask ctx:constraint()
---@field elementwise boolean? an element's result depends on that element alone
---@field keeps_argmax boolean? never changes which token is best
---@field keeps_top boolean? masks everything but a top segment
---@field history_sparse boolean? changes only scores of tokens in ids and a constant set
---@field needs_normalised boolean? needs log-probabilities as input
---@field sampling_only boolean? used with do_sample only

---@class cadenza.CriterionTable: cadenza.RowPlugin
---@field test fun(p: table, ids: cadenza.Ids, ctx: cadenza.Context): (boolean|string)?, string? false or nil: go on; true or a reason ("eos", "length", "time", "string" or your own), and a text
---@field has_eos boolean? stops at end-of-sequence tokens: finished rows are padded

---@class cadenza.StrategyTable: cadenza.Plugin
---@field run fun(ctx: cadenza.Decoder) the decode loop; the field may also be named generate
---@field one_row boolean? handles one row; further rows become child requests
---@field rewinds boolean? takes tokens back: text is not streamed before a row has ended
---@field samples boolean? naming this strategy implies do_sample = true
---@field greedy boolean? naming this strategy implies do_sample = false
---@field beams boolean? needs num_beams > 1
---@field on_hidden (fun(ctx: cadenza.Decoder, row: integer?, layer: integer, h: cadenza.Hidden))? what edits with op = "call" do, in the middle of passes; a function of each position alone, without verbs. row nil: a sequence of the loop's own
---@field drops boolean? takes tokens out of its caches as it goes: a request may be longer than memory

---Proposes tokens that the model then verifies.
---@class cadenza.DrafterTable
---@field id string?
---@field version string?
---@field summary string?
---@field params table<string, any>?
---@field create fun(p: table)? refuses parameters by error()
---@field begin fun(ctx: cadenza.Context): table?
---@field propose fun(p: table, ids: cadenza.Ids, room: integer, ctx: cadenza.Context): integer[]? at most `room` tokens are used
---@field draws_in_turn boolean? a strategy that draws does so for one proposed token after the other, none behind the first that is wrong: sampled tokens are those of sampling without drafts
---@field judged fun(p: table, n_proposed: integer, n_accepted: integer, ctx: cadenza.Context)?

---Watches a request and changes nothing. Its variables live as long as the request. An error here is a warning in the log.
---@class cadenza.ObserverTable: cadenza.Plugin
---@field begin fun(ctx: cadenza.Context)?
---@field stage fun(p: table, by: string, before: cadenza.Vec, after: cadenza.Vec, ctx: cadenza.Context)? processor `by` is done with the row; both read-only
---@field scores fun(p: table, before: cadenza.Vec, after: cadenza.Vec, ctx: cadenza.Context)? all processors are done: logits and scores, read-only
---@field token fun(p: table, token: integer, ctx: cadenza.Context)? the token was appended to the row
---@field stop fun(p: table, reason: string, text: string, ctx: cadenza.Context)? the row ended ("eos", "length", "time", "string", "custom"), or is an answer of a beam search
---@field rewind fun(p: table, n: integer, ctx: cadenza.Context)? the row's last n tokens were taken back
---@field reorder fun(p: table, parents: integer[], ctx: cadenza.Context)? row r became a copy of row parents[r]
---@field finish fun(p: table, ctx: cadenza.Context)? the request has ended

---What one KV head of a layer holds, for one call; entries are numbered from 0, query heads of the group and queries too.
---@class cadenza.Head
---@field n integer entries
---@field scores cadenza.Vec to write: the host keeps the best
---@field keep integer how many stay; may be set
---@field layer integer from 1
---@field n_layers integer
---@field index integer the KV head, from 1
---@field n_heads integer KV heads
---@field group integer query heads that read this one
---@field dim integer
---@field seen integer positions that have been read
---@field n_queries integer of the window
---@field window integer
---@field ratio number the share that is to go; nan: nobody said
---@field decoding boolean
local Head = {}

---@param i integer
---@return cadenza.Vec
function Head:key(i) end

---@param i integer
---@return cadenza.Vec
function Head:value(i) end

---Where an entry stands in the text.
---@param i integer
---@return integer
function Head:position(i) end

---@param h integer
---@param q integer
---@return cadenza.Vec
function Head:query(h, q) end

---@param h integer
---@param q integer
---@return cadenza.Vec weights over entries
function Head:attention(h, q) end

---@param h integer
---@return cadenza.Vec attention that entries got from all queries, over how many see them
function Head:sums(h) end

---@param h integer
---@return cadenza.Vec what entries' values add to the layer's output
function Head:output(h) end

---@param q integer
---@return cadenza.Vec what attention reads
function Head:hidden(q) end

---Says which entries of a KV cache stay.
---@class cadenza.PressTable: cadenza.Plugin
---@field score fun(p: table, head: cadenza.Head, ctx: cadenza.Context) once for each KV head of each layer
---@field needs (string[]|fun(p: table): table)? keys, values, queries, hidden, attention, sums, output; and window = n
---@field begin fun(ctx: cadenza.Context): table?
---@field wraps boolean? goes on from the press before it in the list
---@field own_count boolean? says itself how many stay

---@class cadenza
---@field version string
cadenza = {}

---@param declaration cadenza.ProcessorTable
function cadenza.processor(declaration) end

---@param declaration cadenza.CriterionTable
function cadenza.criterion(declaration) end

---@param declaration cadenza.StrategyTable
function cadenza.strategy(declaration) end

---@param declaration cadenza.DrafterTable
function cadenza.drafter(declaration) end

---@param declaration cadenza.ObserverTable
function cadenza.observer(declaration) end

---@param declaration cadenza.PressTable
function cadenza.press(declaration) end

---The bytes of a file of data of the package, which plugin.ini must list: files = words.txt. They are read with the script.
---@param name string
---@return string
function cadenza.file(name) end

---Loads another file of the package, which plugin.ini must list: files = words.lua. It runs once per request; every require
---of it returns what the file returned.
---@param name string "words" or "words.lua"
---@return any
function require(name) end

---@class veclib
vec = {}

---A vector of n elements of value x (default 0), indexed from 0.
---@param n integer
---@param x? number
---@return cadenza.Vec
function vec.new(n, x) end

---@param values number[]
---@return cadenza.Vec
function vec.from(values) end

---The numbers that bytes hold as little-endian float32, as numpy's tofile writes them.
---@param bytes string
---@param from? integer the first of them, counted from 1 (1)
---@param n? integer how many (the rest)
---@return cadenza.Vec
function vec.unpack(bytes, from, n) end

---A formula over every element x: "x > t ? x*a : x - b". names: its arguments, in the order apply takes them. Operators, from
---the tightest: ^, - not !, * /, + -, < <= > >= == != ~=, and &&, or ||, ? :. Functions: abs clamp(v, low, high) exp floor log
---max min pow sqrt. A comparison gives 1 or 0; any value other than 0 counts as true. inf and nan are numbers.
---@param text string
---@param names? string[]
---@return cadenza.Expr
function vec.expr(text, names) end

---A formula; f(v, ...) is v:apply(f, ...).
---@class cadenza.Expr
---@overload fun(v: cadenza.Vec, ...: number|cadenza.Vec): cadenza.Vec

---@class bitsetlib
bitset = {}

---@param n integer
---@return cadenza.Bitset
function bitset.new(n) end

---A constraint on a text. Where `at` stands: a text, or from begin on a state; nothing: the empty text. State 0 is dead.
---@class cadenza.Grammar
local Grammar = {}

---Whether some continuation is in the language.
---@param at? string|integer
---@return boolean
function Grammar:viable(at) end
---Whether the text is in the language: it may end here.
---@param at? string|integer
---@return boolean
function Grammar:accepts(at) end
---The text that must come, as far as there is one only.
---@param at? string|integer
---@return string
function Grammar:forced(at) end
---From begin on. The tokens that keep the text in the language. Those that end a text are not among them: they may come where it accepts.
---@param at? string|integer
---@return cadenza.Bitset
function Grammar:allowed(at) end
---From begin on. The state of the empty text: a number, which a row's state may hold.
---@return integer
function Grammar:start() end
---From begin on. The state after a text or tokens; 0: nothing in the language goes on so.
---@param state integer
---@param what string|cadenza.IdList
---@return integer
function Grammar:feed(state, what) end

---What cadenza.grammar takes: one of these.
---@class cadenza.GrammarTable
---@field json_schema string? the schema as text
---@field regex string?
---@field grammar string? GBNF or Lark, told apart by their look
---@field gbnf string?
---@field lark string?
---@field structural_tag string? JSON, as text
---@field choice string[]?

---Compiles a constraint when it is first asked: docs/structured.md.
---@param constraint cadenza.GrammarTable
---@return cadenza.Grammar
function cadenza.grammar(constraint) end

---A vector of float32 scores. Operations that return "self" work in place. C plugins have the same operations, with the same bits.
---@class cadenza.Vec
---@operator len: integer
---@field [integer] number
local Vec = {}

---The elements of these ids, as a list.
---@param ids cadenza.IdList
---@return cadenza.Vec values counts from 1
function Vec:get(ids) end
---@param ids cadenza.IdList
---@param x number|number[]|cadenza.Vec one value for all, or one each
---@return cadenza.Vec self
function Vec:set(ids, x) end
---@return cadenza.Vec
function Vec:copy() end
---A view of n elements from a on, indexed from 0: writing it writes the vector.
---@param a integer
---@param n integer
---@return cadenza.Vec
function Vec:slice(a, n) end
---A table; at most 4096 elements.
---@return number[]
function Vec:totable() end
---@param id integer
---@return number
function Vec:item(id) end

---@param x number|cadenza.Vec|cadenza.IdList a scalar, a vector, or ids with values
---@param values? number|number[]|cadenza.Vec
---@return cadenza.Vec self
function Vec:add(x, values) end
---@param x number|cadenza.Vec|cadenza.IdList
---@param values? number|number[]|cadenza.Vec
---@return cadenza.Vec self
function Vec:sub(x, values) end
---@param x number|cadenza.Vec|cadenza.IdList
---@param values? number|number[]|cadenza.Vec
---@return cadenza.Vec self
function Vec:mul(x, values) end
---True division, as torch's scores / x.
---@param x number|cadenza.Vec|cadenza.IdList
---@param values? number|number[]|cadenza.Vec
---@return cadenza.Vec self
function Vec:div(x, values) end
---The same as mul.
---@param x number
---@return cadenza.Vec self
function Vec:scale(x) end
---The same as div.
---@param t number
---@return cadenza.Vec self
function Vec:temperature(t) end
---@param x number|cadenza.Vec
---@return cadenza.Vec self
function Vec:max_with(x) end
---@param x number|cadenza.Vec
---@return cadenza.Vec self
function Vec:min_with(x) end
---Sets every element to x, or to the element of the vector x.
---@param x number|cadenza.Vec
---@return cadenza.Vec self
function Vec:fill(x) end
---self + a * x
---@param a number
---@param x cadenza.Vec
---@return cadenza.Vec self
function Vec:axpy(a, x) end
---self + t * (x - self)
---@param x cadenza.Vec
---@param t number
---@return cadenza.Vec self
function Vec:lerp(x, t) end
---@param low number
---@param high number
---@return cadenza.Vec self
function Vec:clamp(low, high) end
---@param x number
---@return cadenza.Vec self
function Vec:pow(x) end
---@return cadenza.Vec self
function Vec:exp() end
---@return cadenza.Vec self
function Vec:log() end
---@return cadenza.Vec self
function Vec:abs() end
---@return cadenza.Vec self
function Vec:neg() end
---Sets elements to x where the bit is set (with a vector as mask: where it is not 0).
---@param mask cadenza.Bitset|cadenza.Vec
---@param x number|cadenza.Vec
---@return cadenza.Vec self
function Vec:where(mask, x) end

---Applies a formula in place: one pass over memory, with the bits of the single operations.
---@param formula cadenza.Expr
---@param ... number|cadenza.Vec one for each name
---@return cadenza.Vec self
function Vec:apply(formula, ...) end

---Sets elements to -inf. Ids outside the vector are ignored.
---@param ids cadenza.IdList
---@return cadenza.Vec self
function Vec:mask(ids) end
---@param ids cadenza.IdList
---@return cadenza.Vec self
function Vec:mask_except(ids) end
---@param x number
---@return cadenza.Vec self
function Vec:mask_below(x) end
---Masks the ids in the set.
---@param set cadenza.Bitset
---@return cadenza.Vec self
function Vec:mask_bits(set) end
---Masks the ids that are not in the set.
---@param set cadenza.Bitset
---@return cadenza.Vec self
function Vec:keep_bits(set) end

---@return number
function Vec:max() end
---@return number
function Vec:min() end
---The lowest index among equals; the first NaN if there is one.
---@return integer
function Vec:argmax() end
---@return number
function Vec:sum() end
---@return number
function Vec:mean() end
---@return number
function Vec:logsumexp() end
---Of softmax(self), natural logarithm.
---@return number
function Vec:entropy() end
---@return number
function Vec:norm() end
---@param x number
---@return integer
function Vec:count_above(x) end
---Sum of p * log(p / q) of two vectors of probabilities.
---@param q cadenza.Vec
---@return number
function Vec:kl(q) end
---@param x cadenza.Vec
---@return number
function Vec:dot(x) end
---The rank of a token: 1 for the best; of equal scores the lower id comes first.
---@param id integer
---@return integer
function Vec:rank(id) end
---@return boolean
function Vec:any_nan() end

---@return cadenza.Vec self
function Vec:softmax() end
---@return cadenza.Vec self
function Vec:log_softmax() end
---@return cadenza.Vec self
function Vec:cumsum() end
---The k greatest, descending, ties as torch.topk.
---@param k integer
---@return cadenza.Ids ids
---@return cadenza.Vec values counts from 1
function Vec:topk(k) end
---@return cadenza.Ids ids
---@return cadenza.Vec values counts from 1
function Vec:sort_desc() end
---Masks all below the k-th largest; ties with it stay.
---@param k integer
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_topk(k, min_tokens_to_keep) end
---@param p number
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_topp(p, min_tokens_to_keep) end
---@param p number
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_minp(p, min_tokens_to_keep) end
---@param mass number
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_typical(mass, min_tokens_to_keep) end
---@param epsilon number
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_epsilon(epsilon, min_tokens_to_keep) end
---@param epsilon number
---@param min_tokens_to_keep? integer
---@return cadenza.Vec self
function Vec:keep_eta(epsilon, min_tokens_to_keep) end
---One draw from probabilities, which need not sum to 1.
---@param rng cadenza.Rng
---@return integer
function Vec:sample(rng) end
---@param rng cadenza.Rng
---@param n integer
---@return integer[]
function Vec:sample_n(rng, n) end
---Adds Gumbel noise: argmax then draws from softmax(self).
---@param rng cadenza.Rng
---@return cadenza.Vec self
function Vec:gumbel(rng) end

---@param ids cadenza.IdList
---@param kind "repetition"|"frequency"|"presence"
---@param x number
---@return cadenza.Vec self
function Vec:penalize(ids, kind, x) end
---Rewards ids for x above 1.
---@param ids cadenza.IdList
---@param x number
---@return cadenza.Vec self
function Vec:encoder_penalty(ids, x) end
---Masks tokens that would complete an n-gram that already occurs in ids, or in `of`.
---@param ids cadenza.IdList
---@param n integer
---@param of? cadenza.IdList
---@return cadenza.Vec self
function Vec:ngram_ban(ids, n, of) end
---@param biases {[1]: integer[], [2]: number}[] sequences and what is added to their last token
---@param ids cadenza.Ids of the row
---@return cadenza.Vec self
function Vec:sequence_bias(biases, ids) end

---Several rows of scores. Every method of Vec works row by row: methods that work in place return all rows, the others return a
---table with one result per row.
---@class cadenza.Scores: cadenza.Vec
---@operator len: integer
---@field [integer] cadenza.Vec
local Scores = {}

---@param r integer from 1
---@return cadenza.Vec
function Scores:row(r) end
---In strategies: scores of its own, that stay and that every verb takes. Of an assistant with another vocabulary
---keep rows: scores:row(r):copy().
---@return cadenza.Scores
function Scores:copy() end

---Token ids, read-only, counted from 1.
---@class cadenza.Ids
---@operator len: integer
---@field [integer] integer
local Ids = {}

---@param i? integer 1
---@param j? integer -1
---@return integer[]
function Ids:totable(i, j) end
---A view of the ids from i to j; negative indices count from the end.
---@param i integer
---@param j? integer
---@return cadenza.Ids
function Ids:sub(i, j) end
---@param id integer
---@return integer
function Ids:count(id) end
---@param id integer
---@return boolean
function Ids:contains(id) end

---A set of token ids, a bit each.
---@class cadenza.Bitset
---@operator len: integer
local Bitset = {}

---@param ids cadenza.IdList
---@return cadenza.Bitset self
function Bitset:set(ids) end
---@param ids cadenza.IdList
---@return cadenza.Bitset self
function Bitset:clear(ids) end
---@param ids? cadenza.IdList default: all
---@return cadenza.Bitset self
function Bitset:flip(ids) end
---@param other cadenza.Bitset
---@return cadenza.Bitset self
function Bitset:and_(other) end
---@param other cadenza.Bitset
---@return cadenza.Bitset self
function Bitset:or_(other) end
---@return integer
function Bitset:count() end
---@return cadenza.Ids ascending
function Bitset:ids() end
---@param id integer
---@return boolean
function Bitset:test(id) end
---@return cadenza.Bitset
function Bitset:copy() end

---Random numbers keyed by request seed, plugin, row and position. They do not depend on other draws.
---@class cadenza.Rng
local Rng = {}

---@return number from 0 to below 1
function Rng:uniform() end
---@return number mean 0, deviation 1
function Rng:normal() end
---@param a integer
---@param b integer included
---@return integer
function Rng:int(a, b) end
---@param probs cadenza.Vec
---@return integer
function Rng:sample(probs) end

---Facts of the request, for scripts of every kind.
---@class cadenza.Request
---@field params table the parameters, read-only
---@field n_prompts integer
---@field n_rows integer
---@field prompt_len integer of the padded prompt
---@field n_vocab integer
---@field max_length integer
---@field min_length integer
---@field context integer positions the model was trained for
---@field num_beams integer
---@field do_sample boolean
---@field seed integer
---@field eos integer[]
---@field pad integer?
---@field bos integer?
---@field prompts cadenza.Ids[]
---@field elapsed_s number seconds since the request began; with needs_clock

---ctx of processors and criteria.
---@class cadenza.Context: cadenza.Request
---@field row integer which of the request's rows, from 1
---@field tokens cadenza.Ids the row's ids
---@field state table? the row's state; read it only
---@field memory table of drafters: the row's table, as begin returned it, to be written; it stays when tokens are taken back
---@field rng cadenza.Rng
local Context = {}

---A resolved generation parameter by transformers' name; nil when unset. A wrong name is an error.
---@param name string
---@return any
function Context:config(name) end
---Which of ctx.prompts the row continues; with batched = true row is the place in the lists.
---@param row? integer
---@return integer
function Context:prompt_of(row) end
---In begin only.
---@param text string
---@param special? boolean with the model's begin and end tokens
---@return integer[]
function Context:encode(text, special) end
---In begin only.
---@param ids cadenza.IdList
---@param skip_special? boolean
---@return string
function Context:decode(ids, skip_special) end
---What ids of one of the request's models ("target", "assistant") say, in ids of another.
---@param ids integer[]|Ids
---@param from string
---@param to string
---@param special? boolean with the other model's begin and end tokens
---@return integer[]
function Context:convert(ids, from, to, special) end
---@param id integer
---@return string?
function Context:token_text(id) end
---The last n bytes of the text generated so far, never beginning inside a character.
---@param n integer
---@return string
function Context:text_tail(n) end
---All of the text generated so far.
---@return string
function Context:text() end
---In an observer: a value into the answer's "results", as a strategy's.
---@param name string
---@param value any
---@param type? "int64"|"int32"|"float32"|"bool"
function Context:result(name, value, type) end
---In an observer: a line for whoever listens (--observe FILE, cdz_request.on_observed).
---@param line string
function Context:write(line) end
---In apply of a processor with a companion: the logits after the companion, read-only; nil when the row has none.
---@param row? integer of a batch, from 1
---@return cadenza.Vec?
function Context:companion_logits(row) end
---In propose and judged of a drafter: the nth constraint that the row keeps to now, and its state in it (0: its text is over); nil where there are fewer.
---@param n? integer from 1
---@return cadenza.Grammar?, integer?
function Context:constraint(n) end
---A line for the host's log; print does the same.
---@param ... any
function Context:log(...) end

---ctx of strategies. Rows count from 1; with one row the row may be left out. Scores of forward end with the next
---forward, those of seq_forward with the next seq_forward or propose, ids with the next verb that changes them: copy what you
---want to keep.
---@class cadenza.Decoder: cadenza.Request
---@field rng cadenza.Rng numbers of its own, from the seed; uniform and multinomial draw from the request's stream
local Decoder = {}

---@param row? integer
---@return cadenza.Ids
function Decoder:input_ids(row) end
---Without a row: whether all rows are done.
---@param row? integer
---@return boolean
function Decoder:done(row) end
---@param row? integer
---@return boolean
function Decoder:row_done(row) end
---Scores of the next token of every row; runs the model on what the KV cache lacks.
---@return cadenza.Scores
function Decoder:forward() end
---Runs the processors of the user's pipeline, in place.
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:process(scores) end
---append(tokens) for all rows, append(row, token), or append(token) with one row.
---@param row integer|integer[]
---@param token? integer
---@return integer[]? tokens what was appended: pads in rows that are done
function Decoder:append(row, token) end
---@param tokens integer[]
---@return integer[] tokens
function Decoder:append_rows(tokens) end
---How many generated tokens can be taken back.
---@param row? integer
---@return integer
function Decoder:rewindable(row) end
---rewind(row, n), or rewind(n) with one row.
---@param row integer
---@param n? integer
function Decoder:rewind(row, n) end
---Row r becomes a copy of row parents[r].
---@param parents integer[]
function Decoder:reorder(parents) end

---Copies scores to host memory; this happens by itself when elements are read or written.
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:map(scores) end
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:softmax(scores) end
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:log_softmax(scores) end
---ban(scores, row, token), or ban(scores, token) with one row.
---@param scores cadenza.Scores
---@param row integer
---@param token? integer
---@return cadenza.Scores scores
function Decoder:ban(scores, row, token) end
---n rows of scores that stay valid until the strategy returns.
---@param n integer
---@return cadenza.Scores
function Decoder:scratch_scores(n) end
---Without a row: a table of the best tokens. With one: the token, its score, its probability.
---@param scores cadenza.Scores
---@param row? integer
---@return integer|integer[] token
---@return number? score
---@return number? prob
function Decoder:argmax(scores, row) end
---@param scores cadenza.Scores
---@return integer[]
function Decoder:argmax_rows(scores) end
---process, record, softmax and multinomial in one; the contents of the scores are undefined afterwards.
---@param scores cadenza.Scores
---@return integer[] tokens
function Decoder:draw_rows(scores) end
---A token for each row of raw scores, drawn as strategy sample draws with these settings only: temperature (default 1; 0 takes
---the best), top_k (default 0: all), top_p (default 1: all). The rows are edited in place.
---@param scores cadenza.Scores
---@param temperature? number
---@param top_k? integer
---@param top_p? number
---@return integer[] tokens
function Decoder:sample(scores, temperature, top_k, top_p) end
---torch.multinomial(probs, 1) from the request's stream.
---@param probs cadenza.Scores
---@return integer[]
function Decoder:multinomial(probs) end
---torch.topk over n rows from first on as one flat row; addends: one number per row, or nil.
---@param scores cadenza.Scores
---@param first integer
---@param n integer
---@param addends number[]?
---@param m integer
---@return {row: integer, token: integer, score: number}[]
function Decoder:topk_flat(scores, first, n, addends, m) end
---@param probs cadenza.Scores
---@param first integer
---@param n integer
---@param m integer
---@return {row: integer, token: integer, score: number}[]
function Decoder:multinomial_flat(probs, first, n, m) end
---torch.rand: a number, or a table of n.
---@param n? integer
---@return number|number[]
function Decoder:uniform(n) end

---@param model? "target"|"assistant"
---@return cadenza.Seq
function Decoder:seq_new(model) end
---@param row? integer
---@return cadenza.Seq
function Decoder:seq_of_row(row) end
---@param seq cadenza.Seq
---@return cadenza.Seq
function Decoder:seq_fork(seq) end
---@param seq cadenza.Seq
function Decoder:seq_free(seq) end
---@param seq cadenza.Seq
---@param ids cadenza.IdList
function Decoder:seq_append(seq, ids) end
---@param seq cadenza.Seq
---@param len integer
function Decoder:seq_truncate(seq, len) end
---Hides in seq the ids that are hidden in the prompt of this row (pads), so that it reads the row's ids as the row does.
---@param seq cadenza.Seq
---@param row? integer
function Decoder:seq_hide_as(seq, row) end
---The sequence's hidden states are edited from now on, in place of the edits that an earlier call gave; a row's too.
---@param seq cadenza.Seq
---@param edits cadenza.Edit[]
function Decoder:seq_steer(seq, edits) end
---The model reads these vectors in place of what it has for the sequence's tokens from `from` on, counted from 1 among those
---that it sees; a row's too. Ids stay what processors see. A number n in place of vectors: n ids are read as ids again.
---@param seq cadenza.Seq
---@param from integer
---@param vectors cadenza.Vec[]|integer
function Decoder:seq_embeds(seq, from, vectors) end
---Appends positions that are read as these vectors; their id is what processors see there.
---@param seq cadenza.Seq
---@param vectors cadenza.Vec[]
---@param id? integer 0
function Decoder:seq_append_embeds(seq, vectors, id) end
---Takes tokens out of the sequence's cache, from 1 among those that the model sees, `to` being the last one; a row's too.
---@param seq cadenza.Seq
---@param from integer
---@param to integer
---@param options? { renumber: boolean? }
function Decoder:seq_drop(seq, from, to, options) end
---Keys and values that a layer and kv head, from 0, has of tokens of the sequence, and which tokens these are.
---@param seq cadenza.Seq
---@param layer integer
---@param head integer
---@param from? integer 1
---@param to? integer the last one
---@return cadenza.Vec[] keys
---@return cadenza.Vec[] values
---@return integer[] tokens
function Decoder:seq_kv(seq, layer, head, from, to) end
---The same of the only row.
---@param layer integer
---@param head integer
---@param from? integer 1
---@param to? integer the last one
---@return cadenza.Vec[] keys
---@return cadenza.Vec[] values
---@return integer[] tokens
function Decoder:kv(layer, head, from, to) end
---What the sequence's newest tokens look at, in these layers: [layer, as they were named][head + 1][token, oldest first].
---@param seq cadenza.Seq
---@param layers integer[]
---@param queries? integer 1: the newest so many tokens
---@return cadenza.Vec[][][]
function Decoder:seq_attention(seq, layers, queries) end
---@param seq cadenza.Seq
---@return cadenza.Ids
function Decoder:seq_ids(seq) end
---The number of positions that the model sees: ids that the prompt's mask hides do not count.
---@param seq cadenza.Seq
---@return integer
function Decoder:seq_length(seq) end
---Runs the model, in one pass, on what the caches of these sequences lack.
---@param seqs cadenza.Seq|cadenza.Seq[]
---@param positions? "last"|"all"|"none"
---@return cadenza.Scores?
function Decoder:seq_forward(seqs, positions) end
---Runs the pipeline's processors on one score row per sequence, as if seqs[i] continued row rows[i].
---@param seqs cadenza.Seq|cadenza.Seq[]
---@param rows integer|integer[]
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:seq_process(seqs, rows, scores) end
---Whether these continuations of rows would stop: for each, false or the reason.
---@param ids cadenza.IdList[]
---@param rows integer|integer[]
---@return (false|string)[]
function Decoder:stop_test(ids, rows) end

---A sequence that runs only the first n_layers layers of the model, then its final norm and head.
---@param model "target"|"assistant"
---@param n_layers integer
---@return cadenza.Seq
function Decoder:seq_new_exit(model, n_layers) end
---The user's processors without those in `exclude`, then those in `append` once more at the end; for process_ids.
---@param exclude string[]? plugin ids
---@param append string[]? plugin ids
---@return integer pipeline
function Decoder:pipeline_derive(exclude, append) end
---Runs processors on score rows of given histories: row i of scores follows ids[i], a whole history that stands for row rows[i].
---@param pipeline integer 0: the user's; or the result of pipeline_derive
---@param ids cadenza.IdList[]
---@param rows integer|integer[]|nil
---@param scores cadenza.Scores
---@return cadenza.Scores scores
function Decoder:process_ids(pipeline, ids, rows, scores) end
---Appends tokens to a row until one ends it; row i of logits and scores is recorded for token i.
---@param row integer
---@param tokens cadenza.IdList
---@param logits? cadenza.Scores
---@param scores? cadenza.Scores
---@return integer taken
function Decoder:append_chunk(row, tokens, logits, scores) end
---@return boolean
function Decoder:has_drafter() end
---What the pipeline's drafter declares: `draws_in_turn`; false where there is no drafter.
---@return {draws_in_turn: boolean}
function Decoder:drafter_caps() end
---Tokens that may come next, from the pipeline's drafter, and, if they were drawn, the scores that they were drawn from.
---@param row? integer
---@return integer[] tokens
---@return cadenza.Scores? scores
function Decoder:propose(row) end
---Tells the drafter that of the row's newest draft the first n tokens were right.
---@param row integer
---@param n integer
function Decoder:judged(row, n) end

---Row r becomes a copy of row parents[r] and takes tokens[r]; no stopping rule is asked, nothing is streamed.
---@param parents integer[]
---@param tokens integer[]
function Decoder:extend_rows(parents, tokens) end
---softmax of n rows from first on as one flat row, into out (scores itself).
---@param scores cadenza.Scores
---@param first integer
---@param n integer
---@param addends? number[]
---@param out? cadenza.Scores
---@return cadenza.Scores out
function Decoder:softmax_flat(scores, first, n, addends, out) end
---The scores of tokens[i] in row rows[i]; log-probabilities only if the caller asked for them.
---@param scores cadenza.Scores
---@param rows integer[]
---@param tokens integer[]
---@return {score: number, logprob: number?, raw_logprob: number?}[]
function Decoder:token_scores(scores, rows, tokens) end
---Makes these sequences the answer, in place of the rows: best first, those of one prompt side by side. ids come after the
---prompt; n_new of them (default: all) are new tokens; scores are the results of token_scores for each.
---@param sequences {row: integer, ids: cadenza.IdList, n_new: integer?, reason: string?, scores: table[]?}[]
function Decoder:return_rows(sequences) end

---finish(row, reason), or finish(reason) with one row.
---@param row integer
---@param reason? "eos"|"length"|"time"|"string"|string
function Decoder:finish(row, reason) end
---Keeps a copy of the scores if the caller asked for it.
---@param what "logits"|"scores"
---@param scores cadenza.Scores
function Decoder:record(what, scores) end
---Adds a result under a name of your own. Numbers or booleans of one type and shape, vectors, ids and scores are kept as an
---array; strings, tables with names and mixed lists as JSON.
---@param name string
---@param values any
---@param type? "int64"|"int32"|"float32"|"bool"
function Decoder:result(name, values, type) end
---The same as result.
---@param name string
---@param values any
---@param type? "int64"|"int32"|"float32"|"bool"
function Decoder:put_result(name, values, type) end
---@return boolean
function Decoder:cancelled() end
---The monotonic second at which the request ends.
---@return number?
function Decoder:deadline_s() end
---What the model says of each sequence's last tokens: the sum of their log-probabilities, without processors.
---@param sequences Seq|Seq[]
---@param last integer
---@return number[]
function Decoder:seq_score(sequences, last) end
---What the head for values of their model says of the text of each sequence: a classifier's logits by label, a reward model's
---reward. ctx:facts(model).n_values says how many there are; 0: the model has no such head.
---@param sequences Seq|Seq[]
---@return number[][]
function Decoder:seq_value(sequences) end
---Appends a token to each sequence; scores of what comes next, in one pass.
---@param sequences Seq|Seq[]
---@param tokens integer[]|integer
---@return Scores
function Decoder:seq_append_forward(sequences, tokens) end
---Continues sequences by at most so many tokens each, a pass a token for all of them: drawn, or with greedy the likeliest.
---rows: which request row each continues.
---@param sequences Seq|Seq[]
---@param most integer
---@param options? { rows?: integer[]|integer, greedy?: boolean }
---@return { n_new: integer, logprob: number, stop: string|false }[]
function Decoder:rollouts(sequences, most, options) end
---The last n bytes of a row's new text, never beginning inside a character; the row may be left out where there is one.
---@param n integer
---@param row? integer
---@return string
function Decoder:text_tail(n, row) end
---All of a row's new text.
---@param row? integer
---@return string
function Decoder:text(row) end
---Waits so many seconds, from 0 to a million. The other requests go on.
---@param seconds number
function Decoder:sleep(seconds) end
---Asks the tool of that name (--tool NAME=COMMAND, cdz_request.on_tool) and waits for its answer. The other requests go on.
---@param name string
---@param text string
---@return string? answer
---@return string? why there is none
function Decoder:call(name, text) end
---Appends ids that the model did not write. Without options nobody sees them but the model; the row may be left out where
---there is one. who: their writer, as the answer's "spans" name it.
---@param row integer
---@param ids integer[]|Ids
---@param options? { shown?: boolean, counts?: boolean, stops?: boolean, who?: string }
---@return boolean ended whether the row has ended in them
---@overload fun(self: Decoder, ids: integer[]|Ids, options?: table): boolean
function Decoder:insert(row, ids, options) end
---The row's first n new tokens stay: they are streamed now, and rewind does not reach them. The row may be left out where
---there is one.
---@param row integer
---@param n integer
---@overload fun(self: Decoder, n: integer)
function Decoder:commit(row, n) end
---The same as call.
---@param name string
---@param text string
---@return string? answer
---@return string? why
function Decoder:call_tool(name, text) end
---@param model? string
---@return integer?
function Decoder:vocab_size(model) end
---How many values the model's head for them gives (seq_value); 0: it has none, or there is no such model.
---@param model? string
---@return integer
function Decoder:n_values(model) end
---What the i-th value, from 1, of the model's head for them is called: id2label of its config.json. nil: there is no such value, or
---it has no name.
---@param i integer
---@param model? string the target, if nothing is said
---@return string?
function Decoder:value_label(i, model) end
---nil when the request has no such model. n_positions: most tokens that a sequence may have; 0: no limit. n_values: what its head
---for values gives (seq_value); 0: it has none.
---@param model? "target"|"assistant"
---@return {n_vocab: integer, n_layers: integer, width: integer, tied: boolean, has_encoder: boolean, n_positions: integer, n_values: integer}?
function Decoder:facts(model) end

---Later passes keep hidden states of these layers: 0 is the input of the first layer, n_layers the output of the last after the
---final norm. No layers: stops keeping them.
---@param positions "last"|"all"
---@param layers integer[]
function Decoder:keep_hidden(positions, layers) end
---Copies of what the newest pass kept: [layer, in the order given][row].
---@return cadenza.Vec[][]
function Decoder:hidden_states() end
---The model's head on hidden states, without the final norm: a vector of scores for each, indexed by token id.
---@param hidden cadenza.Vec[]
---@return cadenza.Vec[]
function Decoder:head(hidden) end
---What the model would say if these hidden states left it where they are (logit lens): the final norm, then the head.
---@param hidden cadenza.Vec[]
---@return cadenza.Vec[]
function Decoder:lens(hidden) end
---What the model has for these ids where its first layer reads them, as seq:embeds takes it.
---@param ids cadenza.IdList
---@param model? string the target
---@return cadenza.Vec[]
function Decoder:embed(ids, model) end
---Which of ctx.prompts a row continues.
---@param row? integer
---@return integer
function Decoder:prompt_of(row) end
---A resolved generation parameter by transformers' name; nil when unset. A wrong name is an error.
---@param name string
---@return any
function Decoder:config(name) end
---@param text string
---@param special? boolean
---@return integer[]
function Decoder:encode(text, special) end
---@param ids cadenza.IdList
---@param skip_special? boolean
---@return string
function Decoder:decode(ids, skip_special) end
---What ids of one of the request's models ("target", "assistant") say, in ids of another.
---@param ids integer[]|Ids
---@param from string
---@param to string
---@param special? boolean with the other model's begin and end tokens
---@return integer[]
function Decoder:convert(ids, from, to, special) end
---@param id integer
---@return string?
function Decoder:token_text(id) end
---@param ... any
function Decoder:log(...) end

---A sequence of tokens with a KV cache. The sequence of a row can only be read, forked, steered, given vectors and
---cut in its cache.
---@class cadenza.Seq
---@operator len: integer
local Seq = {}

---@return cadenza.Seq
function Seq:fork() end
function Seq:free() end
---@param ids cadenza.IdList
---@return cadenza.Seq self
function Seq:append(ids) end
---@param len integer
---@return cadenza.Seq self
function Seq:truncate(len) end
---Hides the ids that are hidden in the prompt of this row (pads), so that the sequence reads the row's ids as the row does.
---@param row? integer
---@return cadenza.Seq self
function Seq:hide_as(row) end
---Its hidden states are edited from now on, in place of the edits that an earlier call gave.
---@param edits cadenza.Edit[]
---@return cadenza.Seq self
function Seq:steer(edits) end
---The model reads these vectors in place of what it has for the tokens from `from` on, counted from 1 among those that it sees.
---Whatever takes a token back forgets its vector. A number n in place of vectors: n ids are read as ids again.
---@param from integer
---@param vectors cadenza.Vec[]|integer
---@return cadenza.Seq self
function Seq:embeds(from, vectors) end
---Appends positions that are read as these vectors (not to a row: ctx:insert, then seq:embeds).
---@param vectors cadenza.Vec[]
---@param id? integer 0: what ids of the sequence have there
---@return cadenza.Seq self
function Seq:append_embeds(vectors, id) end
---Takes tokens out of its cache, from 1 among those that the model sees, `to` being the last one: later tokens do not see them, while
---ids, and all that sees ids, know of no drop. renumber: what is left closes ranks, and tokens go on behind it.
---@param from integer
---@param to integer
---@param options? { renumber: boolean? }
---@return cadenza.Seq self
function Seq:drop(from, to, options) end
---Keys, as attention reads them, and values that a layer and kv head, from 0, has, and which tokens these are of.
---@param layer integer
---@param head integer
---@param from? integer 1
---@param to? integer the last one
---@return cadenza.Vec[] keys
---@return cadenza.Vec[] values
---@return integer[] tokens
function Seq:kv(layer, head, from, to) end
---What its newest tokens look at, in these layers, from 0: [layer, as they were named][head + 1][token, oldest first] a vector over
---the tokens. It takes a pass over these tokens.
---@param layers integer[]
---@param queries? integer 1: the newest so many tokens
---@return cadenza.Vec[][][]
function Seq:attention(layers, queries) end
---@return cadenza.Ids
function Seq:ids() end
---@return integer
function Seq:length() end
