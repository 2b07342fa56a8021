"""Drafters and observers in Python, and plugins of the library beside Python's objects in one call."""

import logging

import numpy
import pytest

import cadenza

PROMPT = [[5, 6, 9]]
GREEDY = dict(do_sample=False, max_new_tokens=12, eos_token_id=None)


@pytest.fixture
def answer(llama):
    return llama.generate(PROMPT, **GREEDY)[0]


class Knows(cadenza.Drafter):
    """Proposes the answer, and once in a while something else."""

    def __init__(self, answer):
        self.answer, self.rounds, self.seen = answer, [], []

    def __call__(self, input_ids, room):
        self.seen.append((type(input_ids), input_ids.tolist(), room))
        draft = self.answer[len(input_ids) : len(input_ids) + min(room, 3)]
        return draft if len(self.seen) % 3 else [(token + 1) % 100 for token in draft]

    def judged(self, n_proposed, n_accepted):
        self.rounds.append((n_proposed, n_accepted))


def test_a_drafter_changes_no_token(llama, answer):
    knows = Knows(answer)
    assert llama.generate(PROMPT, drafter=knows, **GREEDY)[0] == answer
    assert len(knows.rounds) == len(knows.seen) < 12
    assert any(accepted for _, accepted in knows.rounds) and any(accepted < proposed for proposed, accepted in knows.rounds)
    assert all(ids == answer[: len(ids)] and kind is numpy.ndarray for kind, ids, _ in knows.seen)
    function = lambda ids, room: numpy.array(answer[len(ids) : len(ids) + room])  # noqa: E731
    assert llama.generate(PROMPT, drafter=function, **GREEDY)[0] == answer
    assert llama.generate(PROMPT, drafter=lambda ids, room: None, **GREEDY)[0] == answer
    assert llama.generate(PROMPT, drafter="prompt_lookup", prompt_lookup_num_tokens=3, **GREEDY)[0] == answer
    marks = []
    mark = lambda ids, scores: marks.append(ids.shape) or scores  # noqa: E731
    assert llama.generate(PROMPT, drafter=knows, logits_processor=[mark], **GREEDY)[0] == answer and marks


def test_a_drafter_that_is_wrong(llama, answer):
    with pytest.raises(ZeroDivisionError):
        llama.generate(PROMPT, drafter=lambda ids, room: 1 / 0, **GREEDY)
    with pytest.raises(cadenza.CadenzaError, match="1000000"):
        llama.generate(PROMPT, drafter=lambda ids, room: [10**6], **GREEDY)
    for wrong in (lambda ids, room: "abc", lambda ids, room: [0.5], lambda ids, room: [-1], 3):
        with pytest.raises(ValueError):
            llama.generate(PROMPT, drafter=wrong, **GREEDY)
    with pytest.raises(cadenza.CadenzaError, match="no-such"):
        llama.generate(PROMPT, drafter="no-such-drafter", **GREEDY)
    assert llama.generate(PROMPT, **GREEDY)[0] == answer


class Looks(cadenza.Observer):
    def __init__(self):
        self.calls = []

    def begin(self):
        self.calls.append(("begin",))

    def scores(self, row, input_ids, before, after):
        self.calls.append(("scores", row, len(input_ids), before, after))

    def token(self, row, input_ids, token):
        assert input_ids[-1] == token
        self.calls.append(("token", row, token))

    def stop(self, row, input_ids, reason):
        self.calls.append(("stop", row, reason))

    def end(self):
        self.calls.append(("end",))


class Stages(cadenza.Observer):
    def __init__(self):
        self.by = []

    def stage(self, row, input_ids, by, before, after):
        self.by.append((by, bool((before != after).any())))


def test_an_observer_sees_everything(llama, answer):
    looks, stages = Looks(), Stages()
    got = llama.generate(PROMPT, observers=[looks, stages], repetition_penalty=1.5, **GREEDY)[0]
    assert got == llama.generate(PROMPT, repetition_penalty=1.5, **GREEDY)[0]
    assert looks.calls[0] == ("begin",) and looks.calls[-1] == ("end",) and looks.calls[-2] == ("stop", 0, "length")
    assert [call[2] for call in looks.calls if call[0] == "token"] == got[3:]
    scores = [call for call in looks.calls if call[0] == "scores"]
    assert [call[2] for call in scores] == list(range(3, 15))
    want = llama.generate(PROMPT, repetition_penalty=1.5, return_dict_in_generate=True, output_scores=True, output_logits=True, **GREEDY)
    for step, call in enumerate(scores):  # kept: they are copies
        assert (call[3] == want.logits[step][0]).all() and (call[4] == want.scores[step][0]).all()
    assert len(stages.by) == 12 and {by for by, _ in stages.by} == {"repetition_penalty"} and stages.by[-1][1]


def test_observers_of_beams_and_rows(llama):
    looks = Looks()
    llama.generate([[5, 6, 9], [7, 8, 9]], observers=[looks], num_beams=2, num_return_sequences=2, **GREEDY)
    assert len([call for call in looks.calls if call[0] == "stop"]) == 4


def test_an_observer_that_fails_ends_nothing(llama, answer, caplog):
    class Fails(cadenza.Observer):
        n = 0

        def token(self, row, input_ids, token):
            self.n += 1
            raise ZeroDivisionError("mine")

    fails, looks = Fails(), Looks()
    with caplog.at_level(logging.ERROR, "cadenza"):
        assert llama.generate(PROMPT, observers=[fails, looks], **GREEDY)[0] == answer
    assert fails.n == 1 and "Fails.token failed" in caplog.text and "ZeroDivisionError: mine" in caplog.text
    assert len([call for call in looks.calls if call[0] == "token"]) == 12
    with pytest.raises(ValueError, match="Observer objects"):
        llama.generate(PROMPT, observers=[object()], **GREEDY)
    with pytest.raises(ValueError, match="expected a list"):
        llama.generate(PROMPT, observers=Looks(), **GREEDY)


# -- plugins of the library in a call ------------------------------------------------------------------------------------


AVOID = """
return cadenza.processor {
  id = "org.example.avoid-one", version = "1.0.0",
  params = { token = { 0, 0, 1000000, "never said" } },
  apply = function(p, ids, row, ctx) row:mask({ p.token }) end,
}
"""


def test_library_plugins_in_the_list(llama, answer, tmp_path):
    script = tmp_path / "avoid.lua"
    script.write_text(AVOID)
    avoid = cadenza.processor(script, token=answer[3])
    got = llama.generate(PROMPT, logits_processor=[avoid], **GREEDY)[0]
    assert answer[3] not in got[3:]
    assert got == llama.generate(PROMPT, suppress_tokens=[answer[3]], **GREEDY)[0]
    # its place among Python's: what stands before it sees the scores as they were
    seen = []
    look = lambda ids, scores: seen.append(float(scores[0, answer[3]])) or scores  # noqa: E731
    assert llama.generate(PROMPT, logits_processor=[look, avoid, look], **GREEDY)[0] == got
    assert len(seen) == 24 and all(value > -1e9 for value in seen[::2]) and all(value == -numpy.inf for value in seen[1::2])
    both = [avoid, cadenza.processor(script, token=got[3])]
    assert not {answer[3], got[3]} & set(llama.generate(PROMPT, logits_processor=both, **GREEDY)[0][3:])
    # a custom_generate function calls the same object
    def loop(model, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        while True:
            scores = logits_processor(input_ids, model(input_ids, logits_to_keep=1).logits[:, -1].copy())
            input_ids = numpy.concatenate([input_ids, scores.argmax(-1)[:, None]], 1)
            if stopping_criteria(input_ids, None).all():
                return input_ids

    assert llama.generate(PROMPT, logits_processor=[avoid], custom_generate=loop, **GREEDY).tolist() == [got]


def test_parameters_of_library_plugins(llama, answer):
    minimum = cadenza.processor("min_length", min_length=9, eos_token_id=answer[4])
    got = llama.generate(PROMPT, logits_processor=[minimum], do_sample=False, max_new_tokens=12)[0]
    assert got == llama.generate(PROMPT, min_length=9, eos_token_id=answer[4], do_sample=False, max_new_tokens=12)[0]
    with pytest.raises(ValueError, match="min_length: 9"):
        llama.generate(PROMPT, logits_processor=[minimum], min_length=4, do_sample=False)
    with pytest.raises(cadenza.CadenzaError, match="no-such"):
        llama.generate(PROMPT, logits_processor=[cadenza.processor("no-such-processor")], **GREEDY)


def test_pipeline_files(llama, answer, tmp_path):
    (tmp_path / "avoid.lua").write_text(AVOID)
    file = tmp_path / "mine.ini"
    file.write_text(f"[pipeline]\nprocessors = lua:avoid.lua\n[lua:avoid.lua]\ntoken = {answer[3]}\n"
                    "[generation]\ndo_sample = false\nmax_new_tokens = 12\neos_token_id = none\n")  # fmt: skip
    want = llama.generate(PROMPT, suppress_tokens=[answer[3]], **GREEDY)[0]
    assert llama.generate(PROMPT, pipeline=file)[0] == want
    assert llama.generate(PROMPT, pipeline=str(file), max_new_tokens=5)[0] == want[:8]
    looks = Looks()
    assert llama.generate(PROMPT, pipeline=file, observers=[looks])[0] == want and looks.calls
    with pytest.raises(ValueError, match="has processors of its own"):
        llama.generate(PROMPT, pipeline=file, logits_processor=[lambda ids, scores: scores])
    with pytest.raises(OSError, match="no such file"):
        llama.generate(PROMPT, pipeline=tmp_path / "other.ini")
    with pytest.raises(ValueError, match="expected an ini file"):
        llama.generate(PROMPT, pipeline=3)
    file.write_text("[generation]\ntemprature = 1\n")
    with pytest.raises(ValueError, match="temperature"):
        llama.generate(PROMPT, pipeline=file)


# -- cells ---------------------------------------------------------------------------------------------------------------


def test_lua_cells(llama, answer):
    from cadenza.notebook import lua_cell

    name, avoid = lua_cell(f"avoid token={answer[3]}", AVOID)
    assert name == "avoid" and answer[3] not in llama.generate(PROMPT, logits_processor=[avoid], **GREEDY)[0][3:]
    stop = 'return cadenza.criterion { id = "org.example.five", version = "1.0.0", test = function(p, ids) return #ids >= 5 end }'
    _, five = lua_cell("five", stop)
    assert llama.generate(PROMPT, stopping_criteria=[five], **GREEDY)[0] == answer[:5]
    draft = 'return cadenza.drafter { id = "org.example.same", version = "1.0.0", propose = function(p, ids) return { ids[#ids] } end }'
    _, drafter = lua_cell("same", draft)
    assert llama.generate(PROMPT, drafter=drafter, **GREEDY)[0] == answer
    loop = """
return cadenza.strategy {
  id = "org.example.loop", version = "1.0.0", one_row = true, greedy = true,
  run = function(ctx)
    while not ctx:done() do
      local token = ctx:argmax(ctx:process(ctx:forward()), 1)
      ctx:append(token)
    end
  end,
}
"""
    _, strategy = lua_cell("mine", loop)
    assert llama.generate(PROMPT, custom_generate=strategy, **GREEDY)[0] == answer
    for line, script, sentence in (
        ("", AVOID, "name of a variable"),
        ("a b", AVOID, "expected parameter=value"),
        ("a", "x = 1", "returns no plugin"),
        ("a", AVOID + "end", "near 'end'"),
        ("a tokn=1", AVOID, "tokn"),
        ("a token=' x'", AVOID, "begins or ends with a space"),
        ("a token=1", draft, "parameters are for processors"),
    ):
        with pytest.raises(cadenza.CadenzaError, match=sentence):
            lua_cell(line, script)
    with pytest.raises(OSError, match="no such file"):
        llama.generate(PROMPT, custom_generate="/no/such.lua", **GREEDY)


def test_show(dictionary, tokenizer):
    ids = tokenizer("river (noun): a", return_tensors="np")
    options = dict(do_sample=False, max_new_tokens=8, return_dict_in_generate=True, output_scores=True)
    plain = lambda shown: repr(shown).splitlines()  # noqa: E731
    changed = dictionary.generate(**ids, repetition_penalty=1.3, output_logits=True, **options)
    assert "[+0." in repr(cadenza.show(changed, tokenizer, by="change"))
    beams = dictionary.generate(**ids, num_beams=3, num_return_sequences=3, **options)
    tree = plain(cadenza.show(beams, tokenizer, by="beams"))
    assert tree[0] == "river (noun): a" and sum("(-" in line for line in tree) == 3 and len(tree) < 8
    drafted = dictionary.generate(**ids, drafter=lambda ids, room: [int(ids[-1])][:room], **options)
    rounds = plain(cadenza.show(drafted, tokenizer, by="drafts"))
    assert len(rounds) == len(drafted.rounds) == 8 and all(line.startswith(("0/1", "0/0")) for line in rounds)
    for out, by, row in ((beams, "change", 0), (changed, "beams", 0), (changed, "drafts", 0), (changed, "shape", 0), (changed, "probability", 1)):
        with pytest.raises(ValueError):
            cadenza.show(out, tokenizer, row=row, by=by)
    assert "<script" not in cadenza.show(beams, tokenizer, by="beams").page
    assert repr(drafted.past_key_values) == "<DynamicCache of 1 rows, 13 tokens each>"
