"""Spreads, ratios, tables and plots of bench/harness, and its talk with a program's process, on made-up figures."""
import argparse
import itertools
import json
import pathlib
import sys
import tempfile
import types
import unittest
import xml.dom.minidom

import before
import compare
import peers
import presses
import scaling
import svg
import targets


class Slow:
    """A program that takes what it is told to."""

    def __init__(self, seconds, fail_at=None, limits=(30,)):
        self.seconds, self.fail_at, self.asked, self.missing = list(seconds), fail_at, 0, None
        self.limits = itertools.cycle(limits)

    def order(self, **_):
        self.asked += 1
        if self.asked == self.fail_at:
            self.missing = "it broke"
            return None
        return {"seconds": self.seconds[(self.asked - 1) % len(self.seconds)], "fraction": 0.5, "limit": next(self.limits)}


class Before(unittest.TestCase):
    """Which rows are slower than before."""

    def test_beyond_the_margin_alone(self):
        rows = compare.rows_of({"cadenza": [1.0, 1.0], "before": [0.97, 0.97]}, [], 8, "new tokens/s", {"weights": "bf16", "sequences": 8})
        self.assertEqual(before.slower(rows, 2), ["slower than before: weights bf16, sequences 8: 0.970x"])
        self.assertEqual(before.slower(rows, 3.5), [])

    def test_faster_is_no_fault(self):
        rows = compare.rows_of({"cadenza": [1.0], "before": [1.5]}, [], 1, "prompt tokens/s", {"weights": "bf16", "prompt": 512})
        self.assertEqual(before.slower(rows, 2), [])

    def test_a_program_in_place_of_a_revision(self):
        self.assertEqual(before.program_of(types.SimpleNamespace(revision=sys.executable, build="none")), sys.executable)


class Targets(unittest.TestCase):
    """Which figure answers which target."""

    def row(self, program, neighbours, median, times=1.0, **more):
        return {"weights": "bf16", "neighbours": neighbours, "program": program, "median": median, "cadenza_is": times, **more}

    def found(self, rows):
        results = targets.Results("nowhere")
        results.rows = lambda bench, shape: rows if (bench, shape) == ("decode", "s") else []
        a = types.SimpleNamespace(shapes=["s"], threads=2)
        return {(work, against): (least, got) for work, against, least, got in targets.targets(a, results)}

    def test_quiet_rows_answer_quiet_targets(self):
        found = self.found([self.row("cadenza", 1, 10, fraction_of_limit={"median": 0.2}),
                            self.row("cadenza", 0, 20, fraction_of_limit={"median": 0.9}),
                            self.row("llama.cpp", 1, 4, 2.5), self.row("llama.cpp", 0, 10, 2.0)])
        self.assertEqual(found["decode, s, bf16", "its read limit"], (0.93, 0.9))
        self.assertEqual(found["decode, s, bf16", "llama.cpp"], (1.3, 2.0))
        self.assertEqual(found["decode beside 1 busy, s, bf16", "llama.cpp"], (2.5, 2.5))
        self.assertIsNone(found["decode, s, q8_0", "llama.cpp"][1])

    def test_a_share_of_the_cores(self):
        results = targets.Results("nowhere")
        results.rows = lambda *_: [self.row("cadenza", 0, 30), self.row("cadenza", 1, 20)]
        self.assertAlmostEqual(targets.fair_share(results, "s", "bf16", 2, 2, 1), 1.0)

    def test_its_own_single_thread(self):
        one = compare.ONE_THREAD
        rows = [self.row("cadenza", 0, 30), self.row(one, 0, 20, 1.5), self.row("cadenza", 1, 20), self.row(one, 1, 16, 1.25)]
        self.assertEqual(self.found(rows)["decode beside 1 busy, s, bf16", "its own single thread"], (1.0, 1.25))

    def test_the_table_says_what_was_reached(self):
        lines = targets.table([("a", "b", 2, 2.5), ("a", "c", 2, 1.999), ("a", "d", 2, None)]).split("\n")
        self.assertEqual([line.split(" | ")[-1] for line in lines[2:]], ["reached |", "missed |", "not measured |"])


class Figures(unittest.TestCase):
    def setUp(self):
        compare.REST_S = 0
        self.a = types.SimpleNamespace(rounds=3)

    def test_the_first_turn_warms_up(self):
        own = Slow([9, 1, 2, 3])
        seconds, fractions = compare.turns(self.a, {"cadenza": own}, {"do": "decode"}, [], {})
        self.assertEqual((seconds, own.asked, len(fractions)), ({"cadenza": [1, 2, 3]}, 4, 3))

    def test_no_share_of_a_limit_that_moves(self):
        for limits, told in (([9, 30, 31, 33], 3), ([30, 30, 31, 34], 0)):
            _, fractions = compare.turns(self.a, {"cadenza": Slow([1], limits=limits)}, {"do": "decode"}, [], {})
            self.assertEqual(len(fractions), told)

    def test_a_prompt_fits_the_model(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(compare.longest_prompt(folder))
            for config, most in (({"max_position_embeddings": 512}, 511), ({}, None)):
                (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
                self.assertEqual(compare.longest_prompt(folder), most)

    def test_counts_are_whole_numbers(self):
        self.assertEqual(compare.counts("0,1,12"), [0, 1, 12])
        for text in ("", "x", "1,,2", "1,-2", "1.5"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, f"'{text}': expected whole numbers"):
                compare.counts(text)

    def test_a_program_that_fails_is_named(self):
        missing = []
        both = {"cadenza": Slow([1]), "other": Slow([1], fail_at=3)}
        seconds, _ = compare.turns(self.a, both, {"do": "decode"}, missing, {"weights": "bf16"})
        self.assertEqual(list(seconds), ["cadenza"])
        self.assertEqual(missing, [{"program": "other", "weights": "bf16", "why": "it broke"}])

    def test_ratios_are_taken_round_by_round(self):
        seconds = {"cadenza": [1.0, 2.0, 4.0], "other": [2.0, 4.0, 40.0]}
        own, other = compare.rows_of(seconds, [0.5, 0.9, 0.7], 8, "tokens/s", {"weights": "bf16"})
        self.assertEqual((own["median"], own["low"], own["high"], own["cadenza_is"]), (4, 2, 8, 1))
        self.assertEqual(own["fraction_of_limit"], {"median": 0.7, "low": 0.5, "high": 0.9})
        self.assertEqual(other["cadenza_is"], 2)
        self.assertNotIn("fraction_of_limit", other)

    def test_the_table_has_a_line_for_each_row(self):
        rows = compare.rows_of({"cadenza": [0.5], "other": [1.0]}, [0.93], 1, "tokens/s", {"weights": "q8_0", "neighbours": 0})
        lines = compare.table(rows).split("\n")
        self.assertEqual(lines[0], "| weights | program | tokens/s, median | lowest | highest | Cadenza is | of the limit |")
        self.assertEqual(lines[2], "| q8_0 | cadenza | 2.0 | 2.0 | 2.0 | 1.00x | 93 % |")
        self.assertEqual(lines[3], "| q8_0 | other | 1.0 | 1.0 | 1.0 | 2.00x |  |")

    def test_made_up_ids_are_the_same_for_all(self):
        self.assertEqual(peers.ids(3, 1000), peers.ids(5, 1000)[:3])
        self.assertTrue(all(0 <= i < 7 for i in peers.ids(100, 7)))


class Processes(unittest.TestCase):
    def test_a_program_that_is_not_there_says_so(self):
        worker = peers.Worker(sys.executable, "CTranslate2", {"ct2": "/nowhere", "threads": 1, "vocab": 9, "context": 1})
        worker.close()
        self.assertRegex(worker.missing, "Error")

    def test_a_python_that_ends_at_once_is_missing(self):
        worker = peers.Worker(sys.executable, "no such program", {})
        worker.close()
        self.assertRegex(worker.missing, "KeyError")

    def test_neighbours_come_and_go(self):
        with compare.Neighbours(2) as beside:
            self.assertEqual([p.poll() for p in beside.all], [None, None])
        self.assertTrue(all(p.poll() is not None for p in beside.all))

    def test_memory_is_read_from_proc(self):
        seen = peers.memory("self")
        self.assertTrue(0 < seen["rss"] <= seen["peak"])


class Plots(unittest.TestCase):
    def test_ticks_are_round_and_reach_the_top(self):
        for high, want in ((4.2, [0, 1, 2, 3, 4, 5]), (0.7, 0.8), (1000, 1000), (37, 40)):
            ticks = svg.nice_ticks(high)
            self.assertTrue(ticks[-1] >= high and ticks[0] == 0)
            self.assertAlmostEqual(ticks[-1], want[-1] if isinstance(want, list) else want)

    def test_points_lie_where_they_should(self):
        plane = svg.Plane([{"points": [(1, 2), (4, 8)]}], True)
        self.assertEqual(plane.x(1), svg.LEFT)
        self.assertAlmostEqual(plane.y(0), svg.HEIGHT - svg.BOTTOM)
        self.assertAlmostEqual(plane.y(plane.y_ticks[-1]), svg.TOP)
        self.assertAlmostEqual(plane.x(2) - plane.x(1), plane.x(4) - plane.x(2))

    def test_plots_of_a_run_have_their_limits(self):
        run = json.loads((pathlib.Path(__file__).parent / "scaling.json").read_text())
        for name, limits in (("weights", 1), ("context", 1), ("batch", 2)):
            text = scaling.PLOTS[name](run)
            page = xml.dom.minidom.parseString(text)
            lines = page.getElementsByTagName("polyline")
            self.assertEqual(len(lines), 1 + limits, name)
            self.assertEqual(sum(line.hasAttribute("stroke-dasharray") for line in lines), limits, name)
            self.assertNotIn("nan", text)

    def test_texts_are_escaped(self):
        self.assertIn("a &lt;b&gt; &amp; c", svg.chart("a <b> & c", "", "", [{"name": "", "points": [(1, 1)]}]))


class Presses(unittest.TestCase):
    def test_options_of_a_press(self):
        self.assertEqual(presses.words_of(None, 0.5), [])
        self.assertEqual(presses.words_of("snapkv+adakv", 0.5),
                         ["--press", "snapkv, adakv", "--compression-ratio", 0.5, "-s", "snapkv.window_size=8"])
        self.assertEqual(presses.words_of("simlayerkv", 0.5), ["--press", "simlayerkv"])

    def test_the_first_round_warms_up(self):
        plain, pressed = iter([9.0, 2.0, 4.0, 2.0]), iter([9.0, 3.0, 4.0, 5.0])
        row = presses.in_turns(3, lambda: next(plain), lambda: next(pressed))
        self.assertEqual(row, {"plain": 2.0, "pressed": 4.0, "ratios": [1.0, 1.5, 2.5]})


class Model(unittest.TestCase):
    def test_a_bad_command_is_an_error_with_what_it_said(self):
        with self.assertRaises(SystemExit) as e:
            compare.run(sys.executable, "-c", "import sys; sys.exit('out of luck')")
        self.assertIn("out of luck", str(e.exception))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    print(f"COUNTED {result.testsRun - bad} passed, {bad} failed, 0 skipped")
    sys.exit(bool(bad))
