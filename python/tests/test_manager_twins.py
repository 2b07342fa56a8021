"""The continuous-batching manager of transformers and Cadenza's: the same user code, only the module differs.

Each probe is a function of (hf, model) whose outcome is compared: every field of what it returns, or the class of what it raises.
transformers asks for pinned memory, which needs a CUDA driver: here it is ordinary memory.
"""

import importlib
import queue
import threading
import time

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
inputs_of = pytest.importorskip("transformers.generation.continuous_batching.input_outputs")
import cadenza  # noqa: E402

PROMPTS = [[5, 6, 7], [5, 6, 8, 9], [40, 41], [5, 6, 7, 8, 9, 10, 11, 12]]
SMALL = dict(num_blocks=64, max_batch_tokens=128)  # else the cache takes most of the machine's memory


class Unpinned:
    """torch whose arrays are in ordinary memory."""

    def __getattr__(self, name):
        made = getattr(torch, name)
        if name in ("empty", "zeros", "full"):
            return lambda *args, pin_memory=False, **kwargs: made(*args, **kwargs)
        return made


@pytest.fixture(scope="module")
def pair(golden):
    """Both models; transformers' is of this module alone, since a manager changes its attention for good."""
    kept, inputs_of.torch = inputs_of.torch, Unpinned()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"), dtype=torch.float32, attn_implementation="eager")
    yield theirs.eval(), cadenza.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"))
    inputs_of.torch = kept


def config(hf, **kwargs):
    return hf.GenerationConfig(**{"do_sample": False, "max_new_tokens": 6, "eos_token_id": -1, **SMALL, **kwargs})


def running(hf, model, options=None, **kwargs):
    return model.continuous_batching_context_manager(config(hf, **kwargs), **(options or {}))


def results(manager, n, timeout=60):
    """The next n, by id and length; fewer when the time is over."""
    until, found = time.monotonic() + timeout, []
    while len(found) < n and time.monotonic() < until:
        result = manager.get_result(timeout=1)
        if result is not None:
            found.append(result)
    return sorted(found, key=lambda r: (r.request_id, len(r.generated_tokens)))


def answers(hf, model, prompts=PROMPTS, given=None, options=None, **kwargs):
    """Of requests that are added one by one."""
    with running(hf, model, options, **kwargs) as manager:
        names = [manager.add_request(ids, **(given or {})) for ids in prompts]
        return names, results(manager, len(prompts))


def in_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(60)
    return found


def probe_streaming(hf, model, n=6, **kwargs):
    """transformers' outputs of a request share one list: statuses and the number of them tell."""
    with running(hf, model, **kwargs) as manager:
        name = manager.add_request([5, 6, 7], streaming=True)
        found = []
        while not found or not found[-1].is_finished():
            found += results(manager, 1)
        return name, [r.status for r in found], found[-1], [r.lifespan[1] == -1 for r in found], manager.get_result(timeout=0.3)


def probe_two_streams(hf, model):
    with running(hf, model) as manager:
        names = [manager.add_request(ids, streaming=True) for ids in PROMPTS[:2]]
        found = results(manager, 12)
        return [[r.status for r in found if r.request_id == name] for name in names], manager.get_result(timeout=0.3)


def probe_iteration(hf, model, named):
    with running(hf, model) as manager:
        name = manager.add_request([5, 6, 7], request_id="mine")
        found = []
        for result in manager.request_id_iter(name) if named else manager:
            found.append(result)
            if result.is_finished():
                break
        return found


def probe_requeue(hf, model):
    with running(hf, model) as manager:
        names = [manager.add_request(ids) for ids in PROMPTS[:2]]
        time.sleep(1)
        asked = [manager.get_result(request_id=names[0], timeout=5) is None for _ in range(2)]
        return sorted(asked), sorted(r.request_id for r in results(manager, 1))


def probe_cancel(hf, model):
    """After the first token: others may still lie in the queue, its end does not come."""
    with running(hf, model, max_new_tokens=400) as manager:
        manager.add_request([5, 6, 7], request_id="long", streaming=True)
        while manager.get_result(timeout=5) is None:
            pass
        answer = manager.cancel_request("long")
        manager.add_request([40, 41], max_new_tokens=3, request_id="next")
        found = results(manager, 500, timeout=3)
        return answer, [r.request_id for r in found if r.is_finished()]


def probe_life(hf, model):
    manager = model.init_continuous_batching(config(hf))
    seen = [manager.is_running(), manager.start(), manager.is_running(), manager.start(), manager.is_running()]
    name = manager.add_request([5, 6, 7])
    seen += [name, results(manager, 1), manager.stop(block=True, timeout=30), manager.is_running(), manager.get_result(timeout=0.1)]
    return seen + [manager.stop(), manager.join(0.0), manager.is_running()]


def probe_before_start(hf, model):
    manager = model.init_continuous_batching(config(hf))
    name = manager.add_request([5, 6, 7])
    found = [manager.get_result(timeout=0.1), list(manager), manager.is_running()]
    manager.start()
    found += [name, results(manager, 1)]
    manager.stop()
    return found


def probe_stop_before_start(hf, model):
    manager = model.init_continuous_batching(config(hf))
    found = [manager.stop(), manager.join(0.0), manager.cancel_request("none")]
    manager.start()
    found += [manager.add_request([5, 6, 7]), results(manager, 1)]
    manager.stop()
    return found


def probe_stop_waits(hf, model, block):
    with running(hf, model) as manager:
        names = [manager.add_request(ids) for ids in PROMPTS]
        while manager.get_result(timeout=5) is None:
            pass
        manager.stop(block=block)
        return names, len(results(manager, 3, timeout=20))


def probe_late_stop(hf, model):
    manager = model.init_continuous_batching(config(hf, max_new_tokens=300, num_blocks=64))
    manager.start()
    manager.add_request([5, 6, 7])
    time.sleep(0.02)
    answer = manager.stop(block=True, timeout=0.0)
    return answer, len(results(manager, 1)), in_thread(lambda: manager.join(0.0))


def probe_queue(hf, model):
    """Only those count that nobody serves yet: before the start all."""
    manager = model.init_continuous_batching(config(hf), max_queue_size=2)
    names = [manager.add_request([5, 6, 7]), manager.add_request([5, 6, 8])]
    began = time.monotonic()
    try:
        manager.add_request([5, 6, 9])
    except queue.Full as full:
        return names, type(full), 9 < time.monotonic() - began < 12


def probe_served_queue(hf, model):
    with running(hf, model, dict(max_queue_size=1), max_new_tokens=40) as manager:
        began = time.monotonic()
        names = [manager.add_request(ids) for ids in PROMPTS]
        return names, time.monotonic() - began < 5, results(manager, 4)


def probe_evict(hf, model, manual):
    with running(hf, model, dict(manual_eviction=manual)) as manager:
        name = manager.add_request([5, 6, 7])
        return results(manager, 1), manager.evict_request_from_cache(name)


def probe_names(hf, model):
    with running(hf, model) as manager:
        names = [manager.add_request([5, 6]), manager.add_request([5, 7], "mine"), manager.add_request([5, 8])]
        more = manager.add_requests([[5, 9], [5, 10]])
        return names, more, results(manager, 5)


def probe_add_requests(hf, model, **given):
    with running(hf, model) as manager:
        return manager.add_requests(PROMPTS, **given), results(manager, 4)


def probe_attributes(hf, model, given):
    manager = model.init_continuous_batching(config(hf) if given else None)
    return [
        manager.generation_config is (model.generation_config if not given else manager.generation_config), manager.model is model,
        manager.manual_eviction, manager.do_sample, manager.num_return_sequences, manager.log_prob_generation,
        manager.output_queue.empty(), manager.output_queue.qsize(), manager.input_queue.qsize(), manager.stop_event.is_set(),
    ]  # fmt: skip


def probe_several(hf, model):
    """Answers of one request, sampled from one token: all are the same."""
    with running(hf, model, do_sample=True, num_return_sequences=3, top_k=1) as manager:
        manager.add_request([5, 6, 7], request_id="a")
        return results(manager, 3)


def probe_end(hf, model, several=False):
    """An end within the answer belongs to it."""
    first = model.generate_batch([[5, 6, 7]], config(hf), progress_bar=False)["req_0"].generated_tokens
    return model.generate_batch([[5, 6, 7]], config(hf, eos_token_id=first[3]), progress_bar=False)


def probe_eos_of_model(hf, model, given):
    """A config that is given stands alone: what it does not say is not the model's."""
    kept = model.generation_config
    own = config(hf, eos_token_id=20)
    model.generation_config = own
    try:
        made = hf.GenerationConfig(do_sample=False, max_new_tokens=6, **SMALL) if given else None
        return model.generate_batch([[5, 6, 7]], made, progress_bar=False)
    finally:
        model.generation_config = kept


def probe_batch(hf, model, *args, prompts=PROMPTS, settings=None, **kwargs):
    return model.generate_batch(prompts, config(hf, **(settings or {})), *args, progress_bar=False, **kwargs)


def probe_loud(hf, model):
    return model.generate_batch(PROMPTS[:2], config(hf))


def probe_positions(hf, model):
    manager = model.init_continuous_batching(config(hf), True, 3, 0, 0, True, None, 0)
    return manager.manual_eviction, manager.input_queue.maxsize


def probe_positions_of_context(hf, model):
    with model.continuous_batching_context_manager(config(hf), True, 3, 0, 0, True, True, 20, None, 0) as manager:
        return manager.manual_eviction, manager.input_queue.maxsize, manager.is_running()


def probe_error_inside(hf, model):
    try:
        with running(hf, model) as manager:
            manager.add_request([5, 6, 7])
            raise KeyError("mine")
    except KeyError as error:
        return error.args, manager.is_running()


def probe_threads(hf, model):
    with running(hf, model) as manager:
        threads = [threading.Thread(target=manager.add_request, args=(ids, f"t{i}")) for i, ids in enumerate(PROMPTS)]
        for thread in threads:
            thread.start()
        return results(manager, 4)


def probe_again(hf, model):
    """A manager after a manager."""
    return [answers(hf, model, PROMPTS[:1])[1] for _ in range(2)]


def probe_both_at_once(hf, model):
    with running(hf, model) as one, running(hf, model) as other:
        names = one.add_request([5, 6, 7]), other.add_request([5, 6, 7])
        return names, results(one, 1), results(other, 1)


def module(hf):
    return importlib.import_module(f"{hf.__name__}.generation.continuous_batching")


def probe_output(hf, _model):
    output = importlib.import_module(f"{hf.__name__}.generation.continuous_batching.requests").GenerationOutput
    made = output("a")
    want = output(request_id="b", prompt_ids=[1], generated_tokens=[2], status=module(hf).RequestStatus.FINISHED)
    return made, want, want.is_finished(), made == want, list(vars(made)), made.logprobs is want.logprobs


def probe_status(hf, _model):
    status = module(hf).RequestStatus
    return [(s.name, s.value, s == s.value, s < 9) for s in status], status(3).name, str(status.FAILED), f"{status.DECODING}", status.PENDING < status.FINISHED


def probe_exports(hf, _model):
    names = ("ContinuousBatchingManager", "RequestStatus", "FIFOScheduler", "PrefillFirstScheduler", "Scheduler")
    return [getattr(module(hf), name).__name__ for name in names], hf.ContinuousBatchingManager is module(hf).ContinuousBatchingManager


PROBES = {
    "one": lambda hf, m: answers(hf, m, PROMPTS[:1]),
    "four": answers,
    "a token": lambda hf, m: answers(hf, m, max_new_tokens=1),
    "many tokens": lambda hf, m: answers(hf, m, max_new_tokens=40),
    "a length of its own": lambda hf, m: answers(hf, m, given=dict(max_new_tokens=3)),
    "a longer one of its own": lambda hf, m: answers(hf, m, given=dict(max_new_tokens=9)),
    "timestamps": lambda hf, m: answers(hf, m, given=dict(record_timestamps=True)),
    "no timestamps": lambda hf, m: answers(hf, m, given=dict(record_timestamps=False)),
    "by place": lambda hf, m: probe_place(hf, m),
    "tuples": lambda hf, m: answers(hf, m, [tuple(PROMPTS[0])]),
    "a long prompt": lambda hf, m: answers(hf, m, [[4 + i % 200 for i in range(300)]]),
    "fifo": lambda hf, m: answers(hf, m, scheduler="fifo"),
    "prefill first": lambda hf, m: answers(hf, m, scheduler="prefill_first"),
    "an unknown scheduler": lambda hf, m: answers(hf, m, scheduler="mine"),
    "no sharing": lambda hf, m: answers(hf, m, options=dict(allow_block_sharing=False)),
    "small blocks": lambda hf, m: answers(hf, m, block_size=4, num_blocks=128),
    "padding intervals": lambda hf, m: answers(hf, m, options=dict(q_padding_interval_size=8, kv_padding_interval_size=64)),
    "no graphs": lambda hf, m: answers(hf, m, use_cuda_graph=False),
    "graphs": lambda hf, m: answers(hf, m, use_cuda_graph=True),
    "no async": lambda hf, m: answers(hf, m, options=dict(use_async_batching=False)),
    "an end": probe_end,
    "names": probe_names,
    "add_requests": probe_add_requests,
    "add_requests, a length": lambda hf, m: probe_add_requests(hf, m, max_new_tokens=2),
    "add_requests, timestamps": lambda hf, m: probe_add_requests(hf, m, record_timestamps=True),
    "add_requests, by place": lambda hf, m: probe_add_by_place(hf, m),
    "add_requests, none": lambda hf, m: running_with(hf, m, lambda manager: manager.add_requests([])),
    "streaming": probe_streaming,
    "streaming, a token": lambda hf, m: probe_streaming(hf, m, max_new_tokens=1),
    "streaming, an end": lambda hf, m: probe_streaming(hf, m, eos_token_id=329),
    "two streams": probe_two_streams,
    "iteration": lambda hf, m: probe_iteration(hf, m, False),
    "results of another": probe_requeue,
    "cancel": probe_cancel,
    "cancel what is unknown": lambda hf, m: running_with(hf, m, lambda manager: manager.cancel_request("none")),
    "cancel twice": lambda hf, m: running_with(hf, m, lambda manager: [manager.cancel_request("none") for _ in range(2)]),
    "life": probe_life,
    "requests before the start": probe_before_start,
    "stop before the start": probe_stop_before_start,
    "stop": lambda hf, m: probe_stop_waits(hf, m, True),
    "stop, not waiting": lambda hf, m: probe_stop_waits(hf, m, False),
    "stop, too short": probe_late_stop,
    "a full queue": probe_queue,
    "a queue that is served": probe_served_queue,
    "evict": lambda hf, m: probe_evict(hf, m, True),
    "evict, not asked for": lambda hf, m: probe_evict(hf, m, False),
    "attributes": lambda hf, m: probe_attributes(hf, m, True),
    "attributes of the model's": lambda hf, m: probe_attributes(hf, m, False),
    "no result": lambda hf, m: running_with(hf, m, lambda manager: manager.get_result(timeout=0.05)),
    "no result, at once": lambda hf, m: running_with(hf, m, lambda manager: manager.get_result(timeout=0)),
    "no result, of an id": lambda hf, m: running_with(hf, m, lambda manager: manager.get_result("none", 0.05)),
    "a negative time": lambda hf, m: running_with(hf, m, lambda manager: manager.get_result(timeout=-1)),
    "a negative time before the start": lambda hf, m: m.init_continuous_batching(config(hf)).get_result(timeout=-1),
    "no start": lambda hf, m: m.init_continuous_batching(config(hf)).get_result(),
    "iteration before the start": lambda hf, m: list(m.init_continuous_batching(config(hf)).request_id_iter("req_0")),
    "unknown argument": lambda hf, m: m.init_continuous_batching(config(hf), typo=1),
    "unknown argument of the context": lambda hf, m: m.continuous_batching_context_manager(config(hf), typo=1).__enter__(),
    "unknown argument of a request": lambda hf, m: m.init_continuous_batching(config(hf)).add_request([5], typo=1),
    "unknown argument of requests": lambda hf, m: m.init_continuous_batching(config(hf)).add_requests([[5]], typo=1),
    "no ids": lambda hf, m: m.init_continuous_batching(config(hf)).add_request(),
    "ids that are a number": lambda hf, m: m.init_continuous_batching(config(hf)).add_request(5),
    "ids that are nothing": lambda hf, m: m.init_continuous_batching(config(hf)).add_request(None),
    "log-probabilities": lambda hf, m: m.init_continuous_batching(config(hf, log_prob_generation=True)),
    "arguments by place": probe_positions,
    "the context's by place": probe_positions_of_context,
    "an error inside": probe_error_inside,
    "threads": probe_threads,
    "one after the other": probe_again,
    "two managers": probe_both_at_once,
    "several answers": probe_several,
    "an end that only the model has": lambda hf, m: probe_eos_of_model(hf, m, True),
    "the model's config": lambda hf, m: probe_eos_of_model(hf, m, False),
    "batch": probe_batch,
    "batch, shown": probe_loud,
    "batch, nothing": lambda hf, m: probe_batch(hf, m, prompts=[]),
    "batch, a length": lambda hf, m: probe_batch(hf, m, max_new_tokens=2),
    "batch, timestamps": lambda hf, m: probe_batch(hf, m, record_timestamps=True),
    "batch, by place": lambda hf, m: probe_batch(hf, m, 0, 0, False, True),
    "batch, no sharing": lambda hf, m: probe_batch(hf, m, allow_block_sharing=False),
    "batch, equal prompts": lambda hf, m: probe_batch(hf, m, prompts=[[5, 6, 7]] * 5),
    "batch, several": lambda hf, m: probe_batch(hf, m, settings=dict(do_sample=True, num_return_sequences=2, top_k=1)),
    "batch, sampled of one": lambda hf, m: probe_batch(hf, m, settings=dict(do_sample=True, top_k=1)),
    "batch, twenty": lambda hf, m: probe_batch(hf, m, prompts=[[5 + i, 6, 7] for i in range(20)]),
    "output": probe_output,
    "status": probe_status,
    "exports": probe_exports,
}  # fmt: skip


def running_with(hf, model, call):
    with running(hf, model) as manager:
        return call(manager)


def probe_place(hf, model):
    with running(hf, model) as manager:
        return manager.add_request([5, 6, 7], "mine", 3, False, True), results(manager, 1)


def probe_add_by_place(hf, model):
    with running(hf, model) as manager:
        return manager.add_requests(PROMPTS[:2], 3, False, True), results(manager, 2)


def seen(value):
    """What can be compared of an outcome: of times their order."""
    if type(value).__name__ == "GenerationOutput":
        begin, end = value.lifespan
        times = value.timestamps
        return {
            **{k: v for k, v in vars(value).items() if k not in ("created_time", "lifespan", "timestamps", "status")},
            "status": seen(value.status), "lifespan": (begin == -1 or value.created_time <= begin, end == -1 or begin <= end, end == -1),
            "timestamps": None if times is None else (len(times), times == sorted(times), all(begin <= t for t in times)),
        }  # fmt: skip
    if type(value).__name__ == "RequestStatus":
        return (type(value).__name__, value.name, int(value))
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(seen(item) for item in value)
    return value


def outcome(probe, hf, model):
    try:
        return "returns", seen(probe(hf, model))
    except Exception as error:
        return "raises", error


@pytest.mark.parametrize("name", PROBES, ids=str)
def test_probe(pair, name):
    (want, theirs), (found, ours) = (outcome(PROBES[name], hf, model) for hf, model in zip((transformers, cadenza), pair))
    assert (found, str(ours)) == (want, str(theirs)) if found != want else True
    if want == "raises":
        assert isinstance(ours, type(theirs)), f"{type(ours)}: {ours}; expected {type(theirs)}: {theirs}"
    else:
        assert ours == theirs
